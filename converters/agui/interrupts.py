"""What a run waits for outside."""

from collections.abc import Sequence

from agent_core.events import Event, RequireExternalExecution
from converters.wire import Frame


class Interrupts:
    """Calls that wait for the client are not announced: clients derive them from the calls that have
    no result.
    """

    claims = (RequireExternalExecution,)

    def convert(self, event: Event) -> Sequence[Frame]:  # noqa: ARG002  # the protocol's signature
        return ()
