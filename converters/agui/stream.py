"""One reader of a run: internal events in, the bytes of an AG-UI event stream out."""

import logging
from collections.abc import Sequence

from agent_core.errors import SENTENCES
from agent_core.events import Event
from converters.agui.concerns import converters as standard
from converters.agui.dialect import Dialect
from converters.agui.order import Order, State
from converters.agui.run import failed, started
from converters.chain import Chain, Checked, Converter

logger = logging.getLogger(__name__)


class AguiStream:
    """The chain and the order of one reader. Synchronous; knows nothing of sockets.

    `converters` are the user's own instances for this reader, in front of the standard ones. An event
    whose converter raises is left out; the first such failure of a reader is logged.
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        dialect: Dialect,
        converters: Sequence[Converter] = (),
        parent_run_id: str | None = None,
    ) -> None:
        self._run_id = run_id
        self._chain = Chain([*map(Checked, converters), *standard(thread_id, run_id, parent_run_id)])
        self._order = Order(started(thread_id, run_id, parent_run_id), dialect)
        self._failed = False

    @property
    def finished(self) -> bool:
        """Whether the terminal event was given out; nothing comes after it."""
        return self._order.state is State.OVER

    def feed(self, events: Sequence[Event]) -> bytes:
        """The frames of the events, joined; empty where they show nothing."""
        convert, admit = self._chain.convert, self._order.admit
        out: list[bytes] = []
        for event in events:
            try:
                frames = convert(event)
            except Exception:
                self._report(event)
                continue
            for frame in frames:
                admit(frame, out)
        return b"".join(out)

    def end(self) -> bytes:
        """To be called when no event comes any more: RUN_ERROR `internal` where no terminal event
        was given out, because clients take a stream that merely stops for a success.
        """
        out: list[bytes] = []
        if not self.finished:
            self._order.admit(failed(SENTENCES["internal"], "internal"), out)
        return b"".join(out)

    def _report(self, event: Event) -> None:
        if not self._failed:
            self._failed = True
            logger.exception("A converter failed on %s of run %s.", type(event).__name__, self._run_id)
