// Drives a gateway with the client that is inside Camunda Modeler, and prints what it saw as one JSON document.
//   node drive.js URL service-task.bpmn message-catch.bpmn user-task.bpmn
// It lies beside no node_modules; NODE_PATH says where they are.
const fs = require('node:fs');
const path = require('node:path');
const { Camunda8 } = require('@camunda8/sdk');

const [url, ...files] = process.argv.slice(2);
// What Modeler configures for a connection with the authentication `None`.
const camunda = new Camunda8({
  ZEEBE_REST_ADDRESS: url,
  CAMUNDA_AUTH_STRATEGY: 'NONE',
  CAMUNDA_TENANT_ID: '<default>',
  CAMUNDA_LOG_LEVEL: 'none',
  CAMUNDA_SUPPORT_LOG_ENABLED: false,
});
const client = camunda.getCamundaRestClient();
const seen = {};

const resource = (file) => ({ name: path.basename(file), content: fs.readFileSync(file) });

async function until(condition) {
  const deadline = Date.now() + 30_000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`not in time: ${condition}`);
    await new Promise((resume) => setImmediate(resume));
  }
}

async function refusal(call) {
  try {
    await call();
  } catch (error) {
    return { status: error.statusCode, title: error.title, detail: error.detail, message: String(error.message) };
  }
  throw new Error(`not refused: ${call}`);
}

async function deployAndStart() {
  seen.topology = await client.getTopology();
  seen.deployed = await client.deployResources(files.map(resource), '<default>');
  seen.again = await client.deployResources(files.map(resource), '<default>');
  seen.broken = await refusal(() => client.deployResources([{ name: 'broken.bpmn', content: '<bpmn:definitions' }]));
  seen.started = await client.createProcessInstance({
    processDefinitionId: 'service-task', variables: { order: { total: 12.5 } },
  });
  seen.unknown = await refusal(() => client.createProcessInstance({ processDefinitionId: 'nobody', variables: {} }));
}

async function work() {
  const worker = client.createJobWorker({
    type: 'work', worker: 'driver', timeout: 30_000, maxJobsToActivate: 5, requestTimeout: 5_000, autoStart: true,
    jobHandler: (job) => job.complete({ total: Number(job.variables.order.total) * 2 }),
  });
  seen.result = await client.createProcessInstanceWithResult({
    processDefinitionId: 'service-task', variables: { order: { total: 4 } }, requestTimeout: 30_000,
  });
  await worker.stop();
  seen.completed = await until(async () => {
    const filter = { processInstanceKey: seen.started.processInstanceKey };
    const [instance] = (await client.searchProcessInstances({ filter })).items;
    return instance.state === 'COMPLETED' && instance;
  });
  const filter = { processInstanceKey: seen.started.processInstanceKey };
  seen.elements = (await client.searchElementInstances({ filter })).items.map((each) => [each.elementId, each.state]);
  const variables = (await client.searchVariables({ filter })).items;
  seen.variables = variables.map((each) => [each.name, each.value]);
  seen.variable = (await client.getVariable({ variableKey: variables[0].variableKey })).value;
}

async function correlate() {
  const started = await client.createProcessInstance({
    processDefinitionId: 'message-catch', variables: { order_id: 'node-1' },
  });
  seen.correlated = await until(() => client
    .correlateMessage({ name: 'payment', correlationKey: 'node-1', variables: { amount: 5 } })
    .catch((error) => { if (error.statusCode !== 404) throw error; }));
  seen.published = await client.publishMessage({
    name: 'payment', correlationKey: 'node-2', variables: {}, timeToLive: 1_000,
  });
  seen.broadcast = await client.broadcastSignal({ signalName: 'nobody-waits', variables: {} });
  await client.cancelProcessInstance({ processInstanceKey: started.processInstanceKey });
  seen.cancelled = (await client.searchProcessInstances({
    filter: { processInstanceKey: started.processInstanceKey },
  })).items[0].state;
  seen.correlatedWithStarted = seen.correlated.processInstanceKey === started.processInstanceKey;
}

async function people() {
  const { processInstanceKey } = await client.createProcessInstance({
    processDefinitionId: 'user-task', variables: { owner: 'ada', remind_at: null },
  });
  const [task] = await until(async () => {
    const { items } = await client.searchUserTasks({ filter: { processInstanceKey }, sort: [] });
    return items.length && items;
  });
  seen.task = task;
  await client.completeUserTask({ userTaskKey: task.userTaskKey, variables: { approved: true } });
  seen.taskAfter = (await client.getUserTask(task.userTaskKey)).state;
}

async function mend() {
  const { processInstanceKey } = await client.createProcessInstance({ processDefinitionId: 'service-task', variables: {} });
  const [job] = await until(async () => {
    const jobs = await client.activateJobs({
      type: 'work', worker: 'driver', timeout: 30_000, maxJobsToActivate: 5, requestTimeout: 1_000,
    });
    return jobs.length && jobs;
  });
  await job.fail({ errorMessage: 'no paper', retries: 0 });
  const [incident] = (await client.searchIncidents({ filter: { processInstanceKey } })).items;
  seen.incident = incident;
  await client.updateElementInstanceVariables({ elementInstanceKey: processInstanceKey, variables: { paper: 'A4' } });
  await client.updateJob({ jobKey: job.jobKey, retries: 1 });
  await client.resolveIncident(incident.incidentKey);
  seen.resolved = (await client.searchIncidents({ filter: { processInstanceKey } })).items[0].state;
  await client.cancelProcessInstance({ processInstanceKey });
}

(async () => {
  for (const part of [deployAndStart, work, correlate, people, mend]) await part();
  process.stdout.write(JSON.stringify(seen));
  process.exit(0);
})().catch((error) => {
  process.stderr.write(`${error.stack}\n${error.detail ?? ''}\n`);
  process.exit(1);
});
