"""By what a request is known that may come again: its client timed out, or lost its connection, and sends it once more.

The agent must not run twice for it. Its `Idempotency-Key` is known for 24 hours. A request without a key that says that
it is a retry is known by its body for 10 minutes. Both count for their own user and session alone.
"""

import hashlib
from dataclasses import dataclass

from agent_core.errors import InvalidRequest
from app.errors import Refusal

KEY_SECONDS = 24 * 3600.0
BODY_SECONDS = 600.0

LONGEST_KEY = 256
"""Characters."""


class OtherBody(Refusal):
    """The key was used for another request."""

    status = 422

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key was used for another request.", param="Idempotency-Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a request is known by.

    - session_id, key: None if it has none
    - again: it says that it is a retry; counts: its client would say so
    """

    user_id: str
    session_id: str | None
    body: bytes
    key: str | None
    again: bool
    counts: bool

    @classmethod
    def of(
        cls, user_id: str, body: bytes, key: str | None, retry_count: str | None, session_id: str | None = None
    ) -> "Claim":
        """`key` and `retry_count` are the headers Idempotency-Key and x-stainless-retry-count, whatever they say.

        Raises InvalidRequest for a key that is too long; an empty one is none.
        """
        if key and len(key) > LONGEST_KEY:
            raise InvalidRequest(f"At most {LONGEST_KEY} characters are allowed.", "Idempotency-Key")
        count = retry_count or ""
        return cls(
            user_id=user_id,
            session_id=session_id,
            body=hashlib.sha256(body).digest(),
            key=key or None,
            again=count.isdecimal() and int(count[:9]) > 0,
            counts=retry_count is not None,
        )

    @property
    def seconds(self) -> float:
        """How long it is known."""
        return BODY_SECONDS if self.key is None else KEY_SECONDS

    @property
    def may_repeat(self) -> bool:
        """Whether the same request can come again."""
        return self.key is not None or self.counts

    @property
    def is_second(self) -> bool:
        """Whether the same request may have come before."""
        return self.key is not None or self.again

    @property
    def stored_as(self) -> tuple[str, str]:
        """The claim as a session stores it: the part that all requests with its key share, and the whole."""
        body = self.body.hex()[:16]
        if self.key is None:
            return f"in_{body}", f"in_{body}"
        key = hashlib.sha256(self.key.encode()).hexdigest()[:16]
        return f"key_{key}", f"key_{key}_{body}"
