"""What `ostinato chat` shows: AG-UI frames as lines of text, on a terminal or through a pipe."""

import io
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

PROMPT = "> "
DIM, PLAIN = "\x1b[2m", "\x1b[0m"
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that could move the cursor or change the terminal: models and tools may say anything."""

LONGEST_LINE = 200
"""Characters of a tool call or a result without a terminal, which has a width."""

NOTES = {
    "max_iterations": "the budget of rounds is used up; say “continue” to go on",
    "client_tools": "a tool call waits for another client",
}


class Screen:
    """Shows one answer after another.

    `interactive`: both ends are a terminal, and there is a prompt. Thinking is dimmed on a terminal without NO_COLOR
    in the environment; else it begins with `(thinking)`.
    """

    def __init__(self, source: IO[str], out: IO[str], err: IO[str]) -> None:
        self.interactive = source.isatty() and out.isatty()
        self._source = source
        self._out = out
        self._err = err
        self._dims = out.isatty() and not os.environ.get("NO_COLOR")
        self._width = shutil.get_terminal_size().columns if out.isatty() else LONGEST_LINE
        self._column_is_0 = True
        self._calls: dict[str, tuple[str, list[str]]] = {}
        self._failed = False
        for stream in (out, err):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows ? and goes on

    def read(self) -> str | None:
        """The next question; None at the end of the input."""
        if self.interactive:
            self._column_is_0 = False
            try:
                text: str | None = input(PROMPT)
                self._column_is_0 = True
            except EOFError:
                self.end_line()
                text = None
            return text
        line = self._source.readline()
        return line.rstrip("\r\n") if line else None

    def ask(self, prompt: str, text: str = "") -> str | None:
        """A line that the person types behind `text`, which they may edit; None at the end of the input."""
        self.end_line()
        self._column_is_0 = False
        with _prefilled(text) as there:
            if text and not there:
                self._write(f"{text}\n")  # without line editing the person types it again
            try:
                line = input(_clean(prompt))
            except EOFError:
                self.end_line()
                return None
        self._column_is_0 = True
        return line

    def tell(self, text: str) -> None:
        """Show the text whole, on lines of its own."""
        self.end_line()
        self._write(f"{text}\n")

    def show(self, frame: dict[str, Any]) -> None:
        """Show a frame, if people want to see it."""
        match frame.get("type"):
            case "TEXT_MESSAGE_CONTENT":
                self._write(_text(frame, "delta"))
            case "REASONING_MESSAGE_START":
                self.end_line()
                self._dim(True)
            case "REASONING_MESSAGE_CONTENT":
                self._write(_text(frame, "delta"))
            case "REASONING_MESSAGE_END":
                self._dim(False)
                self.end_line()
            case "TOOL_CALL_START":
                self._calls[_text(frame, "toolCallId")] = (_text(frame, "toolCallName"), [])
            case "TOOL_CALL_ARGS":
                if call := self._calls.get(_text(frame, "toolCallId")):
                    call[1].append(_text(frame, "delta"))
            case "TOOL_CALL_END":
                if call := self._calls.pop(_text(frame, "toolCallId"), None):
                    self._line(f"→ {call[0]}({''.join(call[1])})")
            case "TOOL_CALL_RESULT":
                self._line(f"← {_text(frame, 'content')}")
            case "RUN_ERROR":
                self.fail(_text(frame, "code") or "error", _text(frame, "message"))
            case "RUN_FINISHED":
                self._ended(frame)

    def fail(self, code: str, message: str) -> None:
        """Say what went wrong, on standard error."""
        self._failed = True
        self.end_line()
        print(f"{_clean(code)}: {_clean(message)}", file=self._err, flush=True)

    def note(self, text: str) -> None:
        """A remark that is not the agent's. It ends the line of an interrupted answer."""
        self._forget()
        self._line(f"({text})")

    def finish(self) -> int:
        """End the answer. Returns the exit code: 1 if it failed, else 0."""
        code = int(self._failed)
        self._forget()
        return code

    def end_line(self) -> None:
        """Begin a new line, unless one has just begun."""
        if not self._column_is_0:
            self._write("\n")

    def _forget(self) -> None:
        self._dim(False)
        self.end_line()
        self._calls.clear()
        self._failed = False

    def _ended(self, frame: dict[str, Any]) -> None:
        result, outcome = frame.get("result"), frame.get("outcome")
        if isinstance(result, dict) and (note := NOTES.get(str(result.get("status")))):
            self._line(f"({note})")
        if isinstance(outcome, dict) and outcome.get("type") == "cancelled":
            self._line("(cancelled)")

    def _line(self, text: str) -> None:
        self.end_line()
        line = " ".join(_clean(text[: 4 * LONGEST_LINE]).split())
        self._write(line if len(line) < self._width else f"{line[: self._width - 2]}…")
        self._write("\n")

    def _dim(self, on: bool) -> None:
        if self._dims:
            self._out.write(DIM if on else PLAIN)
            self._out.flush()
        elif on:
            self._write("(thinking) ")

    def _write(self, text: str) -> None:
        text = _clean(text)
        if text:
            self._out.write(text)
            self._out.flush()
            self._column_is_0 = text.endswith("\n")


@contextmanager
def _prefilled(text: str) -> Iterator[bool]:
    """Put the text on the line that is typed next; False if the system has no line editing."""
    try:
        import readline
    except ImportError:
        yield False
        return
    readline.set_startup_hook(lambda: readline.insert_text(text))
    try:
        yield True
    finally:
        readline.set_startup_hook()


def _text(frame: dict[str, Any], name: str) -> str:
    value = frame.get(name)
    return value if isinstance(value, str) else ""


def _clean(text: str) -> str:
    return CONTROLS.sub("", text)
