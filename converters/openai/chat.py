"""One reader of a run: internal events in, an OpenAI chat completion out, streamed or whole.

A stream has this order: the role, deltas, one chunk with a finish reason, the usage if it was asked for, and `[DONE]`.
The stream of a run that fails ends with one error frame and `[DONE]`. A run that waits for a person or an operation
says so in a text.
"""

import time
from collections.abc import Sequence
from typing import Any

from agent_core.errors import SENTENCES
from agent_core.events import AgentEnd, Event, RequireExternalExecution, RunFailed
from converters.chain import Chain, Converter
from converters.openai.chunks import DONE, Chunks, read_frame
from converters.openai.concerns import Adopted, Calls, Ends, Reasoning, Rest, Text
from converters.openai.errors import error_frame
from converters.openai.interrupts import listed, words_for
from converters.openai.told import unfolded
from converters.openai.usage import usage_of
from converters.wire import CUT_REASONS, to_json


class ChatStream:
    """The chain of one reader of a streamed answer. It is synchronous and does no I/O.

    - model: the model that the client asked for; the answer repeats it
    - client_tools: names of the tools that the client runs itself; calls of other tools stay hidden
    - include_usage: whether a chunk at the end tells the cost
    - events: whether the run's other events are shown, each as `x_agent` of an empty chunk
    - converters: the user's own instances for this reader, in front of the standard ones; see Adopted. If one raises,
      its event is left out, and the reader's first such failure is logged
    - created: seconds since 1970, now if it is None
    - failure: how the run failed, None unless it did
    - waiting: the ids of the calls that the run leaves to the client
    """

    def __init__(
        self,
        run_id: str,
        session_id: str,
        model: str,
        client_tools: frozenset[str],
        include_usage: bool = False,
        events: bool = False,
        converters: Sequence[Converter] = (),
        created: int | None = None,
    ) -> None:
        self.run_id = run_id
        self.session_id = session_id
        self.failure: RunFailed | None = None
        self.waiting: tuple[str, ...] = ()
        self._model = model
        self._include_usage = include_usage
        self._chunks = chunks = Chunks(answer_id(run_id), int(time.time()) if created is None else created, model)
        rest = Rest(chunks, events, session_id, run_id)
        self._calls = Calls(chunks, client_tools, rest)
        own = [Adopted(each, chunks, events) for each in converters]
        self._chain = Chain([*own, Text(chunks), Reasoning(chunks), self._calls, Ends(), rest])
        self._opened = False
        self._finished = False

    @property
    def finished(self) -> bool:
        """Whether `[DONE]` was given out. Nothing comes after it."""
        return self._finished

    @property
    def begun(self) -> bool:
        """Whether the model has said something (text, reasoning, a call, also a hidden one), or the run is over. Then
        the response's headers need not be held back any longer. An `x_agent` chunk does not count."""
        return self._chunks.begun or self._finished

    def feed(self, events: Sequence[Event]) -> bytes:
        """The chunks of the events, joined. Empty if the events show nothing."""
        if self._finished or not events:
            return b""
        out = [self._open()]
        convert = self._chain.convert
        for event in unfolded(events):
            try:
                for frame in convert(event):
                    out.append(frame.data)
            except Exception:
                self._chain.report(event)
            # This is not in a converter, because a user's own converter may take the event first.
            kind = event.__class__
            if kind is RequireExternalExecution:
                self.waiting = event.call_ids  # type: ignore[attr-defined]
            elif isinstance(event, AgentEnd | RunFailed):
                self._write_end(event, out)
                break
        return b"".join(out)

    def finish(self) -> bytes:
        """Call this when no more events come. Without a terminal event so far, it gives the error frame `internal`,
        because some clients take a stream that only stops for a success."""
        if self._finished:
            return b""
        return self.feed([RunFailed(run_id=self.run_id, code="internal", message=SENTENCES["internal"])])

    def heartbeat(self) -> bytes:
        """A chunk without content, for a silent stream. It is no comment, because comments do not stop the time-out of
        some clients."""
        if self._finished:
            return b""
        return self._open() or self._chunks.empty()

    def rejoin(self, _snapshot: Sequence[Event], _number: int) -> bytes:
        """Call this if events were missed. No chunk can replace them, so the stream fails."""
        return self.finish()

    def _open(self) -> bytes:
        if self._opened:
            return b""
        self._opened = True
        return self._chunks.role()

    def _write_end(self, event: AgentEnd | RunFailed, out: list[bytes]) -> None:
        self._finished = True
        if isinstance(event, RunFailed):
            self.failure = event
            out.append(error_frame(event.code, event.message))
        else:
            # If an approval waits too, it is not the client's turn yet. The run may also wait only for calls of an
            # earlier answer. Then `tool_calls` would come without a call, and the client could do nothing.
            calls = self._calls.release(self.waiting) if event.status == "client_tools" else []
            out += (frame.data for frame in calls)
            reason = "tool_calls" if calls else "stop" if event.cut is None else CUT_REASONS[event.cut]
            words = words_for(event.interrupts, self.session_id, self._model)
            out += (frame.data for frame in self._chunks.content.frames(f"{self.run_id}-interrupts", words))
            out.append(self._chunks.finish(reason, self._about(event)))
            if self._include_usage:
                out.append(self._chunks.usage(usage_of(event.usage)))
        out.append(DONE)

    def _about(self, event: AgentEnd) -> dict[str, Any]:
        about: dict[str, Any] = {"status": event.status, "run_id": self.run_id, "session_id": self.session_id}
        if event.interrupts:
            about |= {"interrupts": listed(event.interrupts)}
        return about | ({"waiting": self.waiting} if self.waiting else {})


class ChatAnswer:
    """One reader of a run whose client wants the whole answer.

    It reads the stream as a client would, so both forms say the same, also with the user's own converters. Parameters
    as for ChatStream. With `events`, the events are listed in the answer's `x_agent.events`.
    """

    def __init__(
        self,
        run_id: str,
        session_id: str,
        model: str,
        client_tools: frozenset[str],
        events: bool = False,
        converters: Sequence[Converter] = (),
        created: int | None = None,
    ) -> None:
        created = int(time.time()) if created is None else created
        self._identity = {
            "id": answer_id(run_id),
            "object": "chat.completion",
            "created": created,
            "model": model,
        }
        self._stream = ChatStream(run_id, session_id, model, client_tools, True, events, converters, created)
        self._reason = "stop"
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []
        self._about: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}

    @property
    def finished(self) -> bool:
        """Whether the run is over."""
        return self._stream.finished

    @property
    def failure(self) -> RunFailed | None:
        """How the run failed, or None. A failed run has no answer, so `body` must not be called."""
        return self._stream.failure

    def feed(self, events: Sequence[Event]) -> None:
        """Take the events."""
        self._read(self._stream.feed(events))

    def finish(self) -> None:
        """Call this when no more events come. A run without a terminal event has failed as `internal`."""
        self._read(self._stream.finish())

    def body(self) -> bytes:
        """The whole `chat.completion` as JSON. Raises RuntimeError if the run failed or is not over."""
        if self.failure is not None or not self.finished:
            raise RuntimeError("only a run that ended well has an answer")
        content, calls = "".join(self._content), self._calls
        message: dict[str, Any] = {"role": "assistant", "content": content or (None if calls else ""), "refusal": None}
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if calls:
            message["tool_calls"] = [_whole(call) for call in calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._reason}
        about = self._about | ({"events": self._events} if self._events else {})
        return to_json({**self._identity, "choices": [choice], "usage": self._usage, "x_agent": about})

    def _read(self, stream: bytes) -> None:
        for block in stream.split(b"\n\n")[:-1]:
            if block + b"\n\n" != DONE:
                self._take(read_frame(block + b"\n\n"))

    def _take(self, chunk: dict[str, Any]) -> None:
        self._usage = chunk.get("usage", self._usage)
        for choice in chunk.get("choices", ()):
            delta = choice["delta"]
            self._content.append(delta.get("content", ""))
            if "reasoning_content" in delta:
                self._reasoning.append(delta["reasoning_content"])
            for call in delta.get("tool_calls", ()):
                if "id" in call:
                    self._calls.append({"id": call["id"], "name": call["function"]["name"], "arguments": []})
                self._calls[call["index"]]["arguments"].append(call["function"]["arguments"])
            if choice["finish_reason"] is not None:
                self._about, self._reason = chunk["x_agent"], choice["finish_reason"]
            elif "x_agent" in chunk:
                self._events.append(chunk["x_agent"])


def answer_id(run_id: str) -> str:
    """The completion's id. The run can be found by it."""
    return f"chatcmpl-{run_id}"


def _whole(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": "".join(call["arguments"])}
    return {"id": call["id"], "type": "function", "function": function}
