// Measures feelin: standard input is a list of {name, expression, variables}, standard output {name: figures}.
// Its package offers no compiled form, so a copy of it also exports what its evaluate() makes and throws away.
import { readFileSync, writeFileSync } from 'node:fs';

// CPU time, as for the engine, so that what else the machine does counts for neither.
const INSIDE = 'interpreter, InterpreterContext, coerceContext';
const BATCHES = 15;
const MS_PER_BATCH = 20;

const source = readFileSync('node_modules/feelin/dist/index.js', 'utf-8');
writeFileSync('node_modules/feelin/dist/opened.js', `${source}\nexport { ${INSIDE} };\n`);
const { evaluate, interpreter, InterpreterContext, coerceContext } =
  await import(`${process.cwd()}/node_modules/feelin/dist/opened.js`);

function microseconds(call) {
  const timed = (times) => {
    const began = process.threadCpuUsage();
    for (let i = 0; i < times; i++) call();
    const spent = process.threadCpuUsage(began);
    return (spent.user + spent.system) / 1000;
  };
  let times = 1;
  while (timed(times) < MS_PER_BATCH) times *= 2;
  let best = Infinity;
  for (let batch = 0; batch < BATCHES; batch++) best = Math.min(best, timed(times) / times);
  return best * 1000;
}

const figures = {};
for (const { name, expression, variables } of JSON.parse(readFileSync(0, 'utf-8'))) {
  try {
    const context = coerceContext(variables);
    const warned = new InterpreterContext();
    const { root } = interpreter.evaluate(expression, context, undefined, warned);
    const answers = [ root(context), evaluate(expression, variables).value ];
    figures[name] = {
      answers,
      compiled_us: microseconds(() => root(context)),
      taking_us: microseconds(() => root(coerceContext(variables))),
      call_us: microseconds(() => evaluate(expression, variables))
    };
  } catch (error) {
    figures[name] = { refused: String(error) };
  }
}
process.stdout.write(JSON.stringify(figures));
