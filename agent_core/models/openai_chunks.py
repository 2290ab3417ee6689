"""Makes pieces of the payloads of a Chat Completions stream, without any I/O.

Providers that call themselves compatible differ in every detail. This is known of them:

- `error` may stand in a frame of a 200 answer, also inside a list. So it is read before `choices`.
- `choices` may be empty, null or missing. A choice may lack its delta, and usage may stand inside it. Of several
  choices, the one with index 0 or without an index counts.
- Usage may come with every chunk. The last one counts; they are not added up.
- Reasoning comes as `reasoning_content`, as `reasoning`, or as `<think>` at the front of the text.
- One JSON completion may come instead of a stream, and is read too. A `message` after deltas is the same answer again,
  and only its rest beyond the deltas counts.
- A finish_reason or `[DONE]` tells the end. A stream without either was cut off.
- The reason of an early end is passed on: `length`, and `content_filter` after some text.

Tool calls are put together in tool_deltas.py.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any, Literal

import orjson

from agent_core.errors import ModelError
from agent_core.messages import well_formed
from agent_core.models.base import ArgumentsPiece, CutPiece, Piece, TextPiece, ThinkingPiece, UsagePiece
from agent_core.models.failures import failed_frame, snippet
from agent_core.models.openai_fields import count_in, only_text, our_choice, parts_of, split_content
from agent_core.models.sse_lines import too_long
from agent_core.models.think_filter import ThinkFilter
from agent_core.models.tool_deltas import ToolDeltas
from agent_core.usage import Usage

MAX_ANSWER = 4_000_000
"""Characters of one answer at most: its text, its thinking and its calls' arguments."""

SAID = ("content", "refusal", "reasoning_content", "reasoning", "tool_calls")
"""The members of a delta that are part of the answer."""

CUTS: Mapping[str, Literal["length", "filter"]] = {"length": "length", "content_filter": "filter"}
"""The meaning of the finish reasons that are not the model's own."""


class ChunkDecoder:
    """Decodes one answer.

    - complete: whether the provider has said that the answer is whole
    - hide: secrets that must not get into the detail of an error
    - origin: the mark of the model's calls
    """

    def __init__(self, *, provider: str, model: str, hide: Collection[str] = (), origin: str = "") -> None:
        self.complete = False
        self._provider = provider
        self._model = model
        self._hide = hide
        self._done = False
        self._finish_reason = ""
        self._usage: Mapping[str, Any] | None = None
        self._front: ThinkFilter | None = ThinkFilter()
        self._calls = ToolDeltas(origin)
        self._said = False
        self._flows = False  # the answer has begun, and nothing is held back
        self._size = 0
        # The texts so far as the provider wrote them, but the thoughts as they were given out.
        self._texts: list[str] = []
        self._note = self._texts.append
        self._refusals: list[str] = []
        self._thoughts: list[str] = []
        self._in_deltas = False

    def feed(self, payload: bytes) -> list[Piece]:
        """The pieces of one payload. Raises ModelError for an error frame, for a payload that is no JSON, and for an
        answer of more than MAX_ANSWER characters."""
        if self._done:
            return []
        if payload.startswith(b"[") and payload.strip() == b"[DONE]":
            self._done = self.complete = True
            return []
        chunk = self._parse(payload)
        if self._flows and (text := only_text(chunk)):
            self._size = size = self._size + len(text)
            if size > MAX_ANSWER:
                raise too_long("the answer", MAX_ANSWER, "characters")
            self._note(text)
            return [TextPiece(text)]
        usage = chunk.get("usage")
        if usage and isinstance(usage, dict):
            self._usage = usage
        choice = our_choice(chunk.get("choices"))
        if choice is None:
            return []
        pieces = self._choice(choice)
        if not self._said:
            self._said = _says(pieces)
        self._flows = self._said and self._front is None
        return self._measured(pieces)

    def _measured(self, pieces: list[Piece]) -> list[Piece]:
        self._size += sum(
            len(piece.text) for piece in pieces if isinstance(piece, TextPiece | ThinkingPiece | ArgumentsPiece)
        )
        if self._size > MAX_ANSWER:
            raise too_long("the answer", MAX_ANSWER, "characters")
        self._thoughts += (piece.text for piece in pieces if isinstance(piece, ThinkingPiece))
        return pieces

    def finish(self) -> list[Piece]:
        """The stream has ended: the pieces that are left. These are text that was held back, the reason of a cut, and
        the usage.

        Raises ModelError model_bad_answer if the answer is not complete, and model_refused if the provider's content
        filter withheld it.
        """
        if not self.complete:
            detail = "the stream ended without finish_reason and without [DONE]"
            raise ModelError("model_bad_answer", detail=detail, retryable=True)
        pieces = self._flush()
        self._calls.finish()
        if self._finish_reason == "content_filter" and not (self._said or _says(pieces)):
            raise ModelError("model_refused", detail="finish_reason content_filter and no text")
        if why := CUTS.get(self._finish_reason):
            pieces.append(CutPiece(why))
        usage = self._usage_of_call()
        if usage is not None:
            pieces.append(UsagePiece(usage))
        return pieces

    def _parse(self, payload: bytes) -> dict[str, Any]:
        try:
            chunk = orjson.loads(payload)
        except orjson.JSONDecodeError:
            chunk = self._parse_leniently(payload)
        if not isinstance(chunk, dict):
            chunk = chunk[0] if isinstance(chunk, list) and chunk else None
            if not isinstance(chunk, dict):
                raise self._unreadable(payload)
        error = chunk if chunk.get("object") == "error" else chunk.get("error")
        if error:
            raise failed_frame(error, hide=self._hide)
        return chunk

    def _parse_leniently(self, payload: bytes) -> Any:
        """Read a payload that orjson refuses but that can be repaired: with a lone surrogate, or with bytes that are no
        UTF-8."""
        try:
            value = json.loads(payload.decode("utf-8", "replace"))
            return json.loads(well_formed(json.dumps(value, ensure_ascii=False)))
        except (ValueError, RecursionError):
            raise self._unreadable(payload) from None

    def _unreadable(self, payload: bytes) -> ModelError:
        return ModelError("model_bad_answer", detail=f"a frame is no chunk: {snippet(payload, self._hide)}")

    def _choice(self, choice: Mapping[str, Any]) -> list[Piece]:
        reason = choice.get("finish_reason")
        if reason and isinstance(reason, str):
            self._finish_reason = reason
            self.complete = True
        usage = choice.get("usage")
        if usage and isinstance(usage, dict):
            self._usage = usage
        delta, message = choice.get("delta"), choice.get("message")
        pieces: list[Piece] = []
        if isinstance(delta, dict):
            pieces += self._delta(delta)
            self._in_deltas = self._in_deltas or any(delta.get(name) for name in SAID)
        if isinstance(message, dict):
            self.complete = True
            pieces += self._snapshot(message)
        return pieces

    def _snapshot(self, message: Mapping[str, Any]) -> list[Piece]:
        """The pieces of a whole message that did not come before."""
        if not (self._texts or self._refusals or self._thoughts or self._calls):
            return self._delta(message, whole=True)
        pieces: list[Piece] = []
        thought, said = split_content(message.get("content"))
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        if more := self._beyond(self._thoughts, reasoning if isinstance(reasoning, str) else thought):
            pieces.append(ThinkingPiece(more))
        for before, whole in ((self._texts, said), (self._refusals, message.get("refusal"))):
            if isinstance(whole, str) and (more := self._beyond(before, whole)):
                before.append(more)
                self._text(more, pieces)
        calls = message.get("tool_calls")
        if calls and isinstance(calls, list):
            pieces += self._flush()
            pieces += self._calls.complete(calls)
        return pieces

    def _beyond(self, before: list[str], whole: str) -> str:
        """The end of the whole text, without the beginning that came before. If the text begins in another way, it adds
        nothing to deltas; without deltas it is a next piece."""
        known = "".join(before)
        if whole.startswith(known):
            return whole[len(known) :]
        return "" if self._in_deltas else whole

    def _delta(self, delta: Mapping[str, Any], *, whole: bool = False) -> list[Piece]:
        pieces: list[Piece] = []
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if reasoning and isinstance(reasoning, str):
            pieces.append(ThinkingPiece(reasoning))
        content = delta.get("content")
        if content:
            if isinstance(content, str):
                self._texts.append(content)
                self._text(content, pieces)
            else:
                self._parts(content, pieces)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self._refusals.append(refusal)
            self._text(refusal, pieces)
        calls = delta.get("tool_calls")
        if calls and isinstance(calls, list):
            pieces += self._flush()
            pieces += self._calls.complete(calls) if whole else self._calls.take(calls)
        return pieces

    def _text(self, text: str, pieces: list[Piece]) -> None:
        if self._front is None:
            pieces.append(TextPiece(text))
            return
        pieces += self._front.feed(text)
        if self._front.passed:
            self._front = None

    def _parts(self, content: Any, pieces: list[Piece]) -> None:
        for kind, text in parts_of(content):
            if kind == "thinking":
                pieces.append(ThinkingPiece(text))
            else:
                self._texts.append(text)
                self._text(text, pieces)

    def _flush(self) -> list[Piece]:
        front, self._front = self._front, None
        return [*front.finish()] if front is not None else []

    def _usage_of_call(self) -> Usage | None:
        """The usage that was reported last, or None if it has no counts."""
        said = self._usage
        if said is None:
            return None
        cached = count_in(said.get("prompt_tokens_details"), "cached_tokens")
        counts = {
            "input_tokens": count_in(said, "prompt_tokens"),
            "output_tokens": count_in(said, "completion_tokens"),
            "total_tokens": count_in(said, "total_tokens"),
            "cached_input_tokens": cached if cached is not None else count_in(said, "prompt_cache_hit_tokens"),
            "reasoning_tokens": count_in(said.get("completion_tokens_details"), "reasoning_tokens"),
        }
        if all(count is None for count in counts.values()):
            return None
        return Usage(provider=self._provider, model=self._model, **counts)


def _says(pieces: list[Piece]) -> bool:
    """Whether the pieces have more than thinking."""
    return any(not isinstance(piece, ThinkingPiece) for piece in pieces)
