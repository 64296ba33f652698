"""`conch deploy` and `conch process` on a real database, beside what else uses it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from engine.cli import group
from engine.errors import DefinitionInvalid
from engine.store.database import connect
from tests.builders import Diagram
from tests.postgres.test_deployments import DECISION_TABLE, ROUTE, Gateway, answering, resource

pytestmark = pytest.mark.postgres

SETTINGS = f'process = "{ROUTE}"\n'


class Terminal:
    """Where commands are typed, with the settings of one database."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.config = folder / "conch.toml"
        self.config.write_text(f'{SETTINGS}[postgres]\nurl = "{url}"\n')

    def conch(self, *arguments: str) -> Result:
        return CliRunner().invoke(group, [*arguments, "--config", str(self.config)], catch_exceptions=False)

    def said(self, *arguments: str) -> str:
        done = self.conch(*arguments)
        assert done.exit_code == 0, done.output
        return done.stdout

    def json(self, *arguments: str) -> dict:  # type: ignore[type-arg]
        answer = json.loads(self.said(*arguments, "--json"))
        assert isinstance(answer, dict)
        return answer

    def file(self, diagram: Diagram) -> str:
        path = self.folder / resource(diagram).name
        path.write_bytes(resource(diagram).content)
        return str(path)


@pytest.fixture
def terminal(tmp_path: Path, audit_url: str, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("LOGNAME", "ann")
    return Terminal(tmp_path, audit_url)


def test_deploy_list_show_switch_and_go_back(terminal: Terminal) -> None:
    part = terminal.file(Diagram("part").start().script("add", "=1 + 1", "x").end().path("started", "add", "ended"))
    answer = terminal.file(answering("route", "part"))
    assert "process part version 1: deployed" in terminal.said("deploy", part, answer)
    assert "process answer version 1: unchanged" in terminal.said("deploy", answer)
    terminal.said("deploy", terminal.file(answering("settle", "part")))

    listed = terminal.json("process", "list")["items"]
    assert [(each["process_id"], each["version"], each["newest_version"]) for each in listed] == [
        ("answer", 2, 2),
        ("part", 1, 1),
    ]
    shown = terminal.said("process", "show", "answer")
    assert "answer version 2: serves" in shown
    assert "process part version 1" in shown
    assert "settle" in shown
    assert shown.count("deployed") == 3

    switched = terminal.said("process", "activate", "answer", "1", "--reason", "too slow")
    assert "answer: version 1 serves since" in switched
    assert "ann@" in switched
    told = terminal.json("process", "show", "answer")
    assert (told["version"], told["active"]) == (1, True)
    assert [each["cause"] for each in told["activations"]] == ["deployed", "deployed", "activated"]
    assert told["activations"][-1]["reason"] == "too slow"
    again = terminal.said("deploy", terminal.file(answering("settle", "part")))
    assert "process answer version 2: unchanged, serves again" in again
    assert "does not serve" in terminal.said("process", "show", "answer", "--version", "1")


def test_the_file_is_printed_as_it_was_deployed(terminal: Terminal) -> None:
    diagram = answering("route")
    terminal.said("deploy", terminal.file(diagram))
    assert terminal.said("process", "show", "answer", "--xml") == diagram.to_xml()


def test_a_diff_tells_what_the_new_version_means_otherwise(terminal: Terminal) -> None:
    def diagram(retries: int, condition: str) -> Diagram:
        made = Diagram(ROUTE).start().task("route", retries=retries).gateway("enough").end().end("failed")
        made.path("started", "route", "enough").flow("enough", "failed", when=condition)
        return made.flow("enough", "ended", default=True)

    terminal.said("deploy", terminal.file(diagram(1, "=error != null")))
    terminal.said("deploy", terminal.file(diagram(3, "=error = null")))
    told = terminal.said("process", "diff", "answer", "1", "2")
    assert "~ element SERVICE_TASK route" in told
    assert "    retries: 1 -> 3" in told
    assert "    condition: =error != null -> =error = null" in told
    assert "the same file" in terminal.said("process", "diff", "answer", "1", "1")
    changes = terminal.json("process", "diff", "answer", "1", "2")["changes"]
    assert [(each["what"], each["kind"], each["id"]) for each in changes] == [
        ("changed", "element", "route"),
        ("changed", "flow", "enough_to_failed"),
    ]


def test_a_decision_can_be_switched_too(terminal: Terminal) -> None:
    for attempts in (3, 5):
        (terminal.folder / "policy.dmn").write_text(DECISION_TABLE % attempts)
        terminal.said("deploy", str(terminal.folder / "policy.dmn"))
    assert [each["version"] for each in terminal.json("process", "list", "--decision")["items"]] == [2]
    assert "retry: version 1 serves" in terminal.said("process", "rollback", "retry", "--decision")
    assert "attempts &lt; 3" in terminal.said("process", "show", "retry", "--decision", "--xml")


def test_all_problems_of_all_files_are_told_and_nothing_is_deployed(terminal: Terminal, audit_url: str) -> None:
    (terminal.folder / "broken.bpmn").write_text("<a>")
    with pytest.raises(DefinitionInvalid) as refused:  # which `conch` tells line by line, with exit status 1
        terminal.conch("deploy", str(terminal.folder / "broken.bpmn"), terminal.file(answering("nobodys", "nobody")))
    assert {each.rule for each in refused.value.problems} >= {"not-xml", "unknown-topic", "unknown-process"}
    assert terminal.json("process", "list")["items"] == []
    with psycopg.connect(audit_url) as connection:
        left = connection.execute("SELECT released_at IS NOT NULL, recovered_at IS NOT NULL FROM engine_process")
        assert left.fetchall() == [(True, True)]


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("show", "nobody"), 1, "no process `nobody`. `conch process list`"),
        (("show", "answer", "--version", "9"), 1, "no version 9 of process `answer`; the newest is 1"),
        (("activate", "answer", "9"), 1, "no version 9 of `answer`; the newest is 1"),
        (("activate", "answer", "zero"), 2, "VERSION"),
        (("activate", "nobody", "1"), 1, "no process `nobody` is deployed. `conch process list`"),
        (("rollback", "answer"), 1, "nothing to go back to"),
        (("rollback", "nobody"), 1, "no process `nobody` is deployed"),
        (("diff", "answer", "1", "2"), 1, "no version 2"),
        (("diff", "answer", "1"), 2, "NEW"),
        (("show",), 2, "ID"),
    ],
)
def test_what_cannot_be_done_is_said_with_a_way_out(
    terminal: Terminal, arguments: tuple[str, ...], status: int, told: str
) -> None:
    terminal.said("deploy", terminal.file(answering("route")))
    done = terminal.conch("process", *arguments)
    assert (done.exit_code, told in done.output) == (status, True), done.output


def test_a_database_without_tables_is_told_how_to_get_them(tmp_path: Path, database_url: str) -> None:
    terminal = Terminal(tmp_path, database_url)
    for arguments in (("process", "list"), ("deploy", terminal.file(answering("route")))):
        done = terminal.conch(*arguments)
        assert (done.exit_code, "conch migrate" in done.output) == (1, True), done.output


def test_a_running_gateway_follows_a_switch_from_the_command_line(terminal: Terminal, audit_url: str) -> None:
    async def main() -> None:
        database = await connect(audit_url)
        gateway = Gateway(database, 7)
        following = asyncio.create_task(gateway.deployments.follow())
        revision = 0
        try:
            async with asyncio.timeout(60):
                first, second = (Diagram(ROUTE).start(id).end().path(id, "ended") for id in ("started", "begun"))
                for change, serves in ((first, 1), (answering("route", process_id="other"), 1), (second, 2), (None, 1)):
                    deploy = change and ("deploy", terminal.file(change))
                    arguments = deploy or ("process", "rollback", ROUTE)
                    await asyncio.to_thread(terminal.said, *arguments)
                    revision = await gateway.deployments.changed(revision)
                    assert gateway.serving()[0] == serves
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await database.close()

    asyncio.run(main())


@pytest.mark.parametrize("command", ["list", "show", "diff", "activate", "rollback"])
def test_every_command_has_help_with_examples(command: str) -> None:
    done = CliRunner().invoke(group, ["process", command, "--help"])
    assert done.exit_code == 0
    assert "Examples:" in done.stdout
    assert f"conch process {command}" in done.stdout
