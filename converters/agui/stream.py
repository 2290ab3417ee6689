"""One reader of a run: internal events in, the bytes of an AG-UI event stream out."""

from collections.abc import Sequence

from agent_core.errors import SENTENCES
from agent_core.events import AgentEnd, AgentStart, Event, RunFailed
from converters.agui.concerns import converters as standard
from converters.agui.dialect import Dialect
from converters.agui.ids import WHOLE, id_line
from converters.agui.lifecycle import failed, started
from converters.agui.stream_order import Order, State
from converters.chain import Chain, Checked, Converter

TERMINAL: frozenset[type[Event]] = frozenset({AgentEnd, RunFailed})


class AguiStream:
    """The chain and the order of one reader. It is synchronous and does no I/O.

    - converters: the user's own instances for this reader, in front of the standard ones. If one raises, its event is
      left out, and the reader's first such failure is logged
    - reasoning: the reader's own request has shown that it takes `reasoning` messages. The events tell whether other
      requests of the session have

    Every frame has an id (see `ids`). Events are counted from the first on. So a reader that comes back is fed all
    earlier events again, and their frames are thrown away.
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        dialect: Dialect,
        converters: Sequence[Converter] = (),
        parent_run_id: str | None = None,
        *,
        reasoning: bool = False,
    ) -> None:
        concerns = standard(thread_id, run_id, parent_run_id, reasoning=reasoning)
        self._chain = Chain([*map(Checked, converters), *concerns])
        self._order = Order(started(thread_id, run_id, parent_run_id), dialect)
        self._number = 0  # of the last event

    @property
    def finished(self) -> bool:
        """Whether the terminal event was given out. Nothing comes after it."""
        return self._order.state is State.OVER

    def feed(self, events: Sequence[Event]) -> bytes:
        """The frames of the events, joined, each with its id. Empty if the events show nothing."""
        convert, admit = self._chain.convert, self._order.admit
        number, size = self._number, 0
        out: list[bytes] = []
        for event in events:
            number += 1
            try:
                frames = convert(event)
            except Exception:
                self._chain.report(event)
                continue
            if not frames:
                continue
            out.append(b"id: %d.0\n" % number)
            for frame in frames:
                admit(frame, out)
            if len(out) != size + 2:  # the event made no frame, or several
                out[size:] = [id_line(number, k) + data for k, data in enumerate(out[size + 1 :])]
            size = len(out)
        self._number = number
        if events and events[-1].__class__ in TERMINAL and not self.finished:
            # Its converter failed, or showed nothing. Clients would take a stream that only stops for a success.
            out += self._break_off(number)
        return b"".join(out)

    def rest(self, event: Event, frame: int) -> bytes | None:
        """The next event's frames behind its frame number `frame`. None if the event has no such frame."""
        whole = self.feed([event])
        if frame == WHOLE:
            return b""
        after = whole.partition(id_line(self._number, frame))
        if not after[1]:
            return None
        return after[2].partition(b"\n\n")[2]

    def rejoin(self, snapshot: Sequence[Event], number: int, *, marked: bool = True) -> bytes:
        """Go on behind the event `number`, with a snapshot of the run up to it. Ends all open blocks; then the frames
        of the snapshot's events follow.

        Only the last frame has an id, and without `marked` none has. So a reader that is cut off before the last frame
        gets the snapshot again.
        """
        out: list[bytes] = []
        self._order.end_open(out)
        for event in snapshot:
            if isinstance(event, AgentStart) and self._order.state is not State.WAITING:
                continue
            try:
                for frame in self._chain.convert(event):
                    self._order.admit(frame, out)
            except Exception:
                self._chain.report(event)
        self._number = number
        if out and marked:
            out.insert(-1, id_line(number, WHOLE))
        return b"".join(out)

    def finish(self) -> bytes:
        """Call this when no more events come. Without a terminal event so far, it gives RUN_ERROR `internal`, because
        clients take a stream that only stops for a success."""
        return b"" if self.finished else b"".join(self._break_off(self._number + 1))

    def _break_off(self, number: int) -> list[bytes]:
        out: list[bytes] = []
        self._order.admit(failed(SENTENCES["internal"], "internal"), out)
        return [id_line(number, k) + data for k, data in enumerate(out)]
