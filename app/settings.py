"""What an operator can set, and where from: the command line, over OSTINATO_ variables.

The command line loads `.env` into the environment first (command/env_file.py). Code that makes its own Settings reads
the environment only. An empty variable counts as not set.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from agent_core.agent import MODEL_NAME
from agent_core.sessions.storage import Storage, is_postgres
from app.auth import Keys

PREFIX = "OSTINATO_"

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Listed = Annotated[tuple[str, ...], NoDecode]


class SettingsError(ValueError):
    """A setting cannot be used; the text is one sentence that names it and shows no secret."""


class Settings(BaseSettings):
    """The settings of one server; times in seconds, sizes in bytes. Frozen.

    - host, port: where it listens; port 0 takes a free one. Beyond loopback a key is required
    - store: where sessions are stored: `sqlite` (a file in `data_dir`), `memory`, or a `postgresql://` URL
    - data_dir: where the server keeps its files, for its user alone (mode 0700)
    - journal_key: what entries are sealed with; empty for a key of its own in `data_dir`
    - on_disconnect: whether a run ends (`cancel`) or goes on (`continue`) when its last reader leaves
    - lease_seconds: how long a worker counts as alive after its last heartbeat
    - log_seconds, log_bytes: how long a run's events are kept after its end for later readers; bytes of them in all
    - session_days, max_sessions: sessions not written to for so long, and those beyond so many of each user, are
      deleted; None keeps all
    - model: `provider:model` that all agents use instead of their own; None leaves them alone
    - api_keys: `alice:KEY,bob:KEY`, each name a user; api_key: one key for the user `default`
    - allowed_hosts: names that the Host header may have. Without a key, loopback names are added; with a key and
      an empty list, every name is allowed
    - allowed_origins: web pages of other origins that may call, such as `http://localhost:3000`
    - model_idle_seconds: how long a model may be silent; run_seconds: how long a run may take
    - when_busy: whether a run whose session is busy waits (`queue`) or is refused (`reject`)
    - queue_size, queue_seconds: how many runs wait for one session, and how long each
    - drain_seconds: how long runs may go on at shutdown before they are cancelled
    - ping_seconds: how often a silent stream carries a comment
    - stalled_seconds: how long a client may take nothing of its stream before it counts as gone
    - body_limit: the largest request body
    - log_level: debug, info, warning or error
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True
    )

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    store: str = "sqlite"
    data_dir: Path = Path(".ostinato")
    journal_key: SecretStr = SecretStr("")
    on_disconnect: Literal["cancel", "continue"] = "cancel"
    lease_seconds: Seconds = 30.0
    log_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 300.0
    log_bytes: Annotated[int, Field(ge=0)] = 256 * 1024 * 1024
    session_days: Seconds | None = None
    max_sessions: Annotated[int, Field(ge=1)] | None = None
    model: str | None = None
    api_keys: SecretStr = SecretStr("")
    api_key: SecretStr = SecretStr("")
    allowed_hosts: Listed = ()
    allowed_origins: Listed = ()
    model_idle_seconds: Seconds = 60.0
    run_seconds: Seconds = 900.0
    when_busy: Literal["queue", "reject"] = "queue"
    queue_size: Annotated[int, Field(ge=0)] = 8
    queue_seconds: Seconds = 30.0
    drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 10.0
    ping_seconds: Seconds = 15.0
    stalled_seconds: Seconds = 30.0
    body_limit: Annotated[int, Field(ge=1)] = 2_000_000
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator("allowed_hosts", "allowed_origins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = value.split(",")
        return tuple(each.strip().lower().rstrip("/") for each in value if each.strip())

    @field_validator("allowed_hosts")
    @classmethod
    def _check_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if not re.fullmatch(r"[a-z0-9._-]+|\[?[0-9a-f:.]+\]?", each):
                raise ValueError(f"{each!r} is not a host name (no scheme, no port, no '*')")
        return tuple(each.strip("[]") for each in value)

    @field_validator("allowed_origins")
    @classmethod
    def _check_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if not is_origin(each):
                raise ValueError(f"{each!r} is not an origin such as http://localhost:3000 ('*' is never allowed)")
        return value

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @field_validator("model")
    @classmethod
    def _check_model(cls, value: str | None) -> str | None:
        if value is not None and not MODEL_NAME.fullmatch(value):
            raise ValueError(f"{value!r} is not of the form provider:model, such as openai:gpt-5")
        return value

    @field_validator("store", mode="before")
    @classmethod
    def _check_store(cls, value: Any) -> Any:
        if value in ("memory", "sqlite") or is_postgres(str(value)):
            return value
        # A URL may hold a password: only its beginning is repeated.
        raise ValueError(
            f"{str(value).partition('://')[0][:10]!r}… is no store: use 'sqlite', 'memory' or a postgresql:// URL"
        )

    def storage(self) -> Storage:
        """Where sessions are stored; nothing is opened yet."""
        return Storage(
            self.store,
            self.data_dir,
            lease_seconds=self.lease_seconds,
            journal_key=self.journal_key.get_secret_value() or None,
        )

    def read_keys(self) -> Keys:
        """The users and their keys; false if there are none. Raises KeysError."""
        return Keys.parse(self.api_keys.get_secret_value(), self.api_key.get_secret_value())


def is_origin(text: str) -> bool:
    """Whether the text is `http(s)://host` or `http(s)://host:port`, and nothing more."""
    try:
        parts = urlsplit(text)
        plain = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return plain and text == f"{parts.scheme}://{parts.netloc}" and not set("@*") & set(text)


def read_settings(options: Mapping[str, Any] | None = None) -> Settings:
    """The settings from the environment; `options` are what the command line gave, and win.

    An option that is None was not given. Raises SettingsError.
    """
    given = {name: value for name, value in (options or {}).items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as exc:
        raise SettingsError(_sentence(exc, given)) from None


def _sentence(exc: ValidationError, given: Mapping[str, Any]) -> str:
    error = exc.errors(include_url=False, include_context=False)[0]
    field = str(error["loc"][0]) if error["loc"] else ""
    name = f"--{field.replace('_', '-')}" if field in given else f"{PREFIX}{field.upper()}"
    reason = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name}: {'the value ' if error['msg'].startswith('Input ') else ''}{reason}."
