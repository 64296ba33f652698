"""Settings: one file, then the environment over it; frozen, complete, every problem at once, no secret in any text."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import ValidationError

from engine.errors import Problem, SettingsInvalid
from engine.feel.environment import DEFAULT_LIMITS, PER_EVALUATION
from engine.settings import FeelSettings, Settings, load_settings

FLEET = """
[[replicas]]
name = "a"
grpc = "localhost:8001"

[[models]]
name = "chat"
fallback = "chat-small"
price = "p"

[[models]]
name = "chat-small"

[[prices]]
id = "p"
input_token_usd = "0.0000015"
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "conch.toml"
    file.write_text(text, encoding="utf-8")
    return file


def problems(path: Path | None, environ: Mapping[str, str] | None = None) -> list[Problem]:
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(path, environ or {})
    return list(caught.value.problems)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_file_and_environment_the_defaults_hold() -> None:
    settings = load_settings(None, {})
    assert settings == Settings()
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8080)
    assert settings.postgres.url is None
    assert settings.journal.policy == "strict"


def test_the_file_is_the_one_named_else_the_variable_else_the_one_that_lies_there(tmp_path: Path) -> None:
    for name, port in (("named.toml", 1), ("variable.toml", 2), ("conch.toml", 3)):
        (tmp_path / name).write_text(f"[server]\nport = {port}\n")
    variable = {"CONCH_CONFIG": str(tmp_path / "variable.toml")}
    assert load_settings(tmp_path / "named.toml", variable).server.port == 1
    assert load_settings(None, variable).server.port == 2
    assert load_settings(None, {}).server.port == 3


def test_the_environment_lies_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "process = 'one'\n[server]\nport = 1\nhost = '::1'\n")
    environ = {"CONCH_SERVER__PORT": "2", "CONCH_LIMITS__QUEUE_ENTRIES": "0", "CONCH_PROCESS": "two", "HOME": "/"}
    settings = load_settings(file, environ)
    assert (settings.server.host, settings.server.port) == ("::1", 2)
    assert (settings.limits.queue_entries, settings.process) == (0, "two")


def test_a_fleet_is_read_with_exact_money(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, FLEET), {})
    assert settings.prices[0].input_token_usd == Decimal("0.0000015")
    assert settings.prices[0].output_token_usd is None
    assert settings.models[0].fallback == "chat-small"
    assert settings.replicas[0].weight == 100


def test_settings_are_frozen() -> None:
    settings = load_settings(None, {})
    with pytest.raises(ValidationError):
        settings.server.port = 1


def test_every_problem_is_named_at_once_with_its_place(tmp_path: Path) -> None:
    file = written(tmp_path, "colour = 1\n[server]\nport = 'x'\nprot = 1\n[limits]\nqueue_timeout_ms = 0\n")
    found = problems(file, {"CONCH_SERVER__HOTS": "x", "CONCH_REPLICAS": "[]", "CONCH_SERVER": "x"})
    assert {problem.element_id for problem in found} == {
        *("colour", "server.port", "server.prot", "limits.queue_timeout_ms"),
        *("CONCH_SERVER__HOTS", "CONCH_REPLICAS", "CONCH_SERVER"),
    }
    assert {problem.file for problem in found} == {str(file), "environment"}
    assert {problem.rule for problem in found} == {"unknown-setting", "settings-value"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('[[models]]\nname = "chat"\n', "`chat` is declared 2 times"),
        ('[[replicas]]\nname = "a"\ngrpc = "b:1"\n', "`a` is declared 2 times"),
        ('[[models]]\nname = "x"\nfallback = "x"\n', "cannot be its own fallback"),
        ('[[models]]\nname = "x"\nfallback = "y"\n', "no model `y`; declared: `chat`, `chat-small`, `x`"),
        ('[[models]]\nname = "x"\nprice = "y"\n', "no price `y`; declared: `p`"),
        ('[[models]]\nname = "x"\npools = ["gpu"]\n', "pools with replicas: `default`"),
        (
            '[[replicas]]\nname = "z"\ngrpc = "b:1"\npool = "idle"\nweight = 0\n'
            '[[models]]\nname = "x"\npools = ["idle"]\n',
            "weight 0",
        ),
    ],
)
def test_what_refers_to_nothing_or_says_things_twice_is_refused(tmp_path: Path, change: str, words: str) -> None:
    (problem,) = problems(written(tmp_path, FLEET + change))
    assert words in problem.message


def test_several_broken_references_are_named_together(tmp_path: Path) -> None:
    broken = '[[models]]\nname = "x"\nfallback = "y"\nprice = "z"\npools = ["gpu"]\n'
    (problem,) = problems(written(tmp_path, FLEET + broken))
    assert all(name in problem.message for name in ("`y`", "`z`", "`gpu`"))


@pytest.mark.parametrize("url", ["mysql://u:secret@h/d", "secret", ""])
def test_a_database_url_must_be_one_of_postgres_and_is_never_shown(url: str) -> None:
    found = problems(None, {"CONCH_POSTGRES__URL": url})
    assert [problem.element_id for problem in found] == ["postgres.url"]
    assert "secret" not in str(found)


@pytest.mark.parametrize("url", ["postgresql://u:secret@h/d", "postgres://h/d", "postgresql+psycopg://h/d"])
def test_a_database_url_of_postgres_is_kept_secret(url: str) -> None:
    settings = load_settings(None, {"CONCH_POSTGRES__URL": url})
    assert settings.postgres.url is not None
    assert settings.postgres.url.get_secret_value() == url
    assert "secret" not in repr(settings) + str(settings) + settings.model_dump_json()


def test_a_value_that_is_wrong_is_not_quoted(tmp_path: Path) -> None:
    file = written(tmp_path, "[postgres]\nurl = ['postgresql://u:secret@h/d']\n")
    assert "secret" not in str(problems(file))


@pytest.mark.parametrize(("text", "words"), [(None, "cannot be read"), ("[a", "is not TOML"), ("a = '\xff", "TOML")])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "some.toml"
    if text is not None:
        file.write_text(text, encoding="latin-1")
    (problem,) = problems(file)
    assert problem.file == str(file)
    assert words in problem.message
    assert problem.remedy


def test_the_default_deadline_is_an_hour_at_most(tmp_path: Path) -> None:
    assert load_settings(written(tmp_path, "[defaults]\ndeadline_ms = 3600000\n"), {}).defaults.deadline_ms == 3_600_000
    (problem,) = problems(written(tmp_path, "[defaults]\ndeadline_ms = 3600001\n"))
    assert problem.element_id == "defaults.deadline_ms"


@pytest.mark.parametrize(
    ("section", "key", "floor"),
    [
        ("runtime", "lease_ms", 1_000),  # a beat is a third of it, and a busy loop may be late by more than that
        ("runtime", "slice_ms", 0.1),
        ("journal", "commit_timeout_ms", 100),
        ("probes", "interval_ms", 100),
        ("probes", "timeout_ms", 10),
    ],
)
def test_what_would_make_a_gateway_trip_over_itself_is_refused(
    tmp_path: Path, section: str, key: str, floor: float
) -> None:
    settings = load_settings(written(tmp_path, f"[{section}]\n{key} = {floor}\n"), {})
    assert getattr(getattr(settings, section), key) == floor
    (problem,) = problems(written(tmp_path, f"[{section}]\n{key} = {floor * 0.99 if floor < 1 else int(floor) - 1}\n"))
    assert problem.element_id == f"{section}.{key}"


def test_variables_of_the_tests_are_not_settings() -> None:
    assert load_settings(None, {"CONCH_TEST_DATABASE_URL": "x"}) == Settings()


@pytest.mark.parametrize("grpc", ["host", "http://host:1", "host:1/x", "host :1", ""])
def test_a_replica_has_a_host_and_a_port(tmp_path: Path, grpc: str) -> None:
    (problem,) = problems(written(tmp_path, f'[[replicas]]\nname = "a"\ngrpc = "{grpc}"\n'))
    assert problem.element_id == "replicas.0.grpc"


def test_bounds_of_expressions_are_those_of_the_file_and_only_what_differs_is_told(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, "[feel]\nmax_steps = 5000\nmax_list = 100000\n"), {})
    assert settings.feel.changes == (("max_steps", 5_000),)
    assert settings.feel.limits == DEFAULT_LIMITS.but([("max_steps", 5_000)])
    assert not Settings().feel.changes


def test_every_bound_of_an_evaluation_is_a_setting() -> None:
    assert set(FeelSettings.model_fields) == PER_EVALUATION


def test_a_bound_beyond_what_the_stack_of_an_evaluation_holds_is_refused(tmp_path: Path) -> None:
    (problem,) = problems(written(tmp_path, "[feel]\nmax_call_depth = 501\n"))
    assert problem.element_id == "feel.max_call_depth"
