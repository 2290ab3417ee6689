"""Reasoning that a model writes at the front of its text, as `<think>…</think>`."""

from agent_core.models.base import TextPiece, ThinkingPiece

OPEN = "<think>"
CLOSE = "</think>"


class ThinkFilter:
    """Makes thinking of a block `<think>…</think>` at the front of a text, wherever the pieces are cut.

    White space around the tags is dropped with them. A block elsewhere is plain text. Once `passed` is true, all that
    follows is text and need not be fed.
    """

    def __init__(self) -> None:
        self.passed = False
        self._held = ""
        self._state = "front"
        self._begun = False

    def feed(self, text: str) -> list[TextPiece | ThinkingPiece]:
        """The pieces that are certain now. Holds back only white space and the beginning of a tag."""
        pieces: list[TextPiece | ThinkingPiece] = []
        self._held += text
        if self._state == "front":
            self._leave_front()
        if self._state == "thinking":
            self._think(pieces)
        if self._state == "after":
            self._held = self._held.lstrip()
            self._state = "text" if self._held else "after"
        if self._state == "text":
            self.passed = True
            pieces += [TextPiece(self._held)] if self._held else []
            self._held = ""
        return pieces

    def finish(self) -> list[TextPiece | ThinkingPiece]:
        """The text has ended: the pieces of what was held back."""
        held, self._held = self._held, ""
        if self._state == "thinking":
            held = held.rstrip()
            return [ThinkingPiece(held)] if held else []
        return [TextPiece(held)] if held else []

    def _leave_front(self) -> None:
        start = self._held.lstrip()
        if start.startswith(OPEN):
            self._held = start.removeprefix(OPEN)
            self._state = "thinking"
        elif not OPEN.startswith(start):
            self._state = "text"

    def _think(self, pieces: list[TextPiece | ThinkingPiece]) -> None:
        if not self._begun:
            self._held = self._held.lstrip()
            self._begun = bool(self._held)
        thought, closed, rest = self._held.partition(CLOSE)
        if closed:
            self._state = "after"
            self._held = rest
            thought = thought.rstrip()
        else:
            kept = _tag_begun(thought)
            sure = thought[: len(thought) - kept].rstrip()
            self._held = thought[len(sure) :]
            thought = sure
        if thought:
            pieces.append(ThinkingPiece(thought))


def _tag_begun(text: str) -> int:
    """The number of characters at the end of the text that may begin the closing tag."""
    return next((n for n in range(len(CLOSE) - 1, 0, -1) if text.endswith(CLOSE[:n])), 0)
