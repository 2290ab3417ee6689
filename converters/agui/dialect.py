"""Which AG-UI a client speaks."""

from enum import Enum


class Dialect(Enum):
    """Decided by the input's `protocolVersion`.

    `V1`: it is there, whatever it says, since newer versions of 1 must be served too. `OLD`: it is
    missing, so the client (0.0.x) rejects shapes that came with 1.0: those frames have a second
    form, a subagent shows only in its parent's tool result, and blocks never interleave.
    """

    V1 = "1.0"
    OLD = "0.x"

    @classmethod
    def of(cls, protocol_version: str | None) -> "Dialect":
        return cls.V1 if protocol_version else cls.OLD
