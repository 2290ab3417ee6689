"""Everything that can go wrong, and the code of each failure outside.

    CoreError
    ├── InvalidRequest          the caller's input cannot be used; names the field
    ├── SessionBusy             a run holds the session and the gate's strategy is `reject`
    ├── SessionExists           a session that should be filled is not empty
    ├── HeldElsewhere           a run that was asked for may be under way in another worker
    ├── QueueFull               too many runs wait for the session
    ├── ToolError               raised by a tool, with a text for the model
    └── RunError                ends a run; becomes one RunFailed event with its code
        └── ModelError          the model call failed

    ValueError
    └── StoreError              a store cannot be opened, or its journal not read: one sentence for the operator

A failing tool does not raise: its failure is a result for the model. The sentences below are ours. The words of a
provider or a library go to the log and never to a client.
"""

from typing import Literal

Code = Literal[
    "invalid_request", "unauthorized", "not_found", "session_busy", "session_busy_timeout",
    "queue_full", "draining", "rate_limited", "body_too_large", "model_auth", "model_quota",
    "model_unreachable", "model_timeout", "model_bad_answer", "model_refused", "context_overflow",
    "run_deadline", "worker_lost", "store_unavailable", "internal",
]  # fmt: skip

SENTENCES: dict[Code, str] = {
    "invalid_request": "The request cannot be used.",
    "unauthorized": "A valid API key is needed: send it as 'Authorization: Bearer KEY'.",
    "not_found": "There is nothing here under that name.",
    "session_busy": "Another run of this session is under way.",
    "session_busy_timeout": "The run waited too long for another run of its session to end.",
    "queue_full": "Too many runs are waiting for this session. Try again later.",
    "draining": "The server is shutting down. Try again in a moment.",
    "rate_limited": "Too many requests. Try again later.",
    "body_too_large": "The request body is too large.",
    "model_auth": "The model provider refused the credentials: check the API key and what it may use.",
    "model_quota": "The model provider's quota or rate limit is used up: check the plan, or try again later.",
    "model_unreachable": "The model provider could not be reached or broke off: check the network and the base URL.",
    "model_timeout": "The model provider did not answer in time: check the network, or allow a longer wait.",
    "model_bad_answer": "The model provider sent an answer that cannot be read: check that the base URL is an API.",
    "model_refused": "The model provider refused the request: check the model's name and what it supports.",
    "context_overflow": "The conversation is longer than the model can take: start a new session or shorten it.",
    "run_deadline": "The run reached the server's time limit for one run.",
    "worker_lost": "The server that carried out this run was lost.",
    "store_unavailable": "The session store could not be reached.",
    "internal": "Something went wrong in the server. The log has the details under the run's id.",
}  # fmt: skip


class CoreError(Exception):
    """The base of all errors that this package raises on purpose, except StoreError."""


class InvalidRequest(CoreError):
    """The input cannot be used. `param` is the path of the wrong field, such as `messages[2].content`."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class SessionBusy(CoreError):
    """Another run holds the session. `run_id` is the other run's id."""

    def __init__(self, run_id: str) -> None:
        super().__init__(SENTENCES["session_busy"])
        self.run_id = run_id


class SessionExists(CoreError):
    """There is a session under this id already."""

    def __init__(self) -> None:
        super().__init__("There is a session under this id already; choose another.")


class HeldElsewhere(CoreError):
    """The run may be under way in another worker."""

    def __init__(self) -> None:
        super().__init__("The run is under way in another worker.")


class QueueFull(CoreError):
    """The session has as many waiting runs as the gate allows. `retry_after` is in seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(SENTENCES["queue_full"])
        self.retry_after = retry_after


class ToolError(CoreError):
    """Raise this in a tool to tell the model what went wrong. Its text becomes the call's result."""


class RunError(CoreError):
    """Ends a run. `message` may be shown and defaults to our sentence for the code. `detail` is for the log only."""

    def __init__(self, code: Code, message: str = "", *, detail: str = "") -> None:
        self.code: Code = code
        self.message = message or SENTENCES[code]
        self.detail = detail
        super().__init__(f"{code}: {detail or self.message}")


class ModelError(RunError):
    """A model call failed.

    - status: the HTTP status, None if there was none
    - retryable: whether the same request may succeed if it is sent again; never true for 400, 401, 403 and 404
    - retry_after: the provider's wish in seconds, None without one
    """

    def __init__(
        self,
        code: Code,
        *,
        detail: str = "",
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(code, detail=detail)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after


class StoreError(ValueError):
    """A store cannot be opened, or its journal cannot be read. Its text is one sentence for the command line, without
    passwords, keys and URLs."""
