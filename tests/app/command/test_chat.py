"""`ostinato chat` as a process of its own: through pipes and in a terminal, in-process and over HTTP."""

import asyncio
import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.command.chat import Chat
from app.command.screen import Screen
from app.command.server_client import Failure, frames_of
from tests.app.command.test_cli import KEY, environment, ostinato, serving

AGENTS = """
import asyncio
from ostinato import Agent, tool

@tool(timeout=None)
async def wait_for_rain() -> str:
    '''Wait for rain.'''
    print("waiting", flush=True)
    try:
        await asyncio.sleep(600)
    finally:
        print("stopped waiting", flush=True)
    return "none"

agents = [Agent("first", "fake:demo"), Agent("rainy", "fake:fake", tools=[wait_for_rain])]
"""


def talk(lines: str, *arguments: str, cwd: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "ostinato", "chat", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment(**variables), input=lines, capture_output=True, text=True, timeout=60
    )


class Terminal:
    """A chat in a pseudo-terminal."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self._master, slave = pty.openpty()
        command = [sys.executable, "-m", "ostinato", "chat", *arguments]
        variables = {"TERM": "dumb", "PYTHONIOENCODING": "utf-8", "COLUMNS": "80"}
        kept = environment(**variables)
        kept.pop("NO_COLOR", None)
        self.process = subprocess.Popen(command, cwd=cwd, env=kept, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, text: str) -> str:
        """Wait until the text stands on the screen; returns what came up to its end."""
        while text not in self._seen:
            ready, _, _ = select.select([self._master], [], [], 30)
            assert ready, f"{text!r} did not come, only {self._seen!r}"
            self._seen += os.read(self._master, 65536).decode("utf-8", "replace")
        end = self._seen.index(text) + len(text)
        before, self._seen = self._seen[:end], self._seen[end:]
        return before

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@contextmanager
def terminal(*arguments: str, cwd: Path) -> Iterator[Terminal]:
    opened = Terminal(*arguments, cwd=cwd)
    try:
        yield opened
    finally:
        opened.close()


def test_one_question_is_answered_in_this_process_and_the_command_ends(tmp_path: Path) -> None:
    done = ostinato("chat", "-m", "weather in Paris", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    call, result, answer = done.stdout.splitlines()
    assert call == '→ get_weather({"city":"Paris"})'
    assert result.startswith('← {"city":"Paris"')
    assert answer.startswith("Weather in Paris: ")


def test_thinking_is_marked_where_it_cannot_be_dimmed(tmp_path: Path) -> None:
    done = ostinato("chat", "-m", "hello", cwd=tmp_path)
    thought, answer = done.stdout.splitlines()
    assert thought.startswith("(thinking) The user greets me")
    assert answer.startswith("Hello from Ostinato")
    assert "\x1b" not in done.stdout


def test_a_failed_question_is_code_and_message_on_standard_error_and_exit_code_1(tmp_path: Path) -> None:
    done = ostinato("chat", "-m", "error", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("model_unreachable: ")
    assert done.stderr.count("\n") == 1


def test_questions_from_a_pipe_are_answered_in_one_session_until_exit(tmp_path: Path) -> None:
    done = talk("hello\n\nerror\nraw please\ncontinue\n/exit\nslow\n", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.count("Hello from Ostinato") == 1
    assert done.stderr.count("model_unreachable: ") == 1
    assert '→ take_step({"number":6})' in done.stdout, "continue goes on with the session"
    assert "say “continue” to go on" in done.stdout
    assert "39 40" not in done.stdout
    assert "> " not in done.stdout


def test_the_agents_of_a_file_can_be_talked_to_by_name(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(AGENTS)
    first = ostinato("chat", "my_agents.py", "-m", "raw please", cwd=tmp_path)
    assert "take_step for that, but it was not offered" in first.stdout
    other = ostinato("chat", "my_agents.py", "--agent", "rainy", "-m", "anything else", cwd=tmp_path)
    assert "no tool fits" in other.stdout
    nobody = ostinato("chat", "my_agents.py", "--agent", "nobody", "-m", "x", cwd=tmp_path)
    assert nobody.returncode == 1
    assert nobody.stderr == "Error: There is no agent named 'nobody': known are first, rainy.\n"


@pytest.mark.parametrize(
    ("arguments", "variables", "says"),
    [
        (["missing.py"], {}, "There is no file missing.py"),
        ([], {"OSTINATO_MODEL": "nobody:x"}, "there is no model 'nobody:x'"),
        ([], {"OSTINATO_PORT": "x"}, "OSTINATO_PORT: "),
        ([], {"OSTINATO_MODEL": "openai:m", "OPENAI_BASE_URL": "localhost:1"}, "OPENAI_BASE_URL: the value must "),
        (["--session", "a b"], {}, "--session: 1 to 128 of A-Z a-z 0-9 . _ : - are allowed."),
        (["http://127.0.0.1:1", "--session", "a/b"], {}, "--session: 1 to 128 of A-Z a-z 0-9 . _ : - are allowed."),
    ],
)
def test_a_chat_that_cannot_begin_is_one_sentence(
    arguments: list[str], variables: dict[str, str], says: str, tmp_path: Path
) -> None:
    done = ostinato("chat", *arguments, "-m", "x", cwd=tmp_path, **variables)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("Error: ")
    assert says in done.stderr


def test_a_named_session_without_a_server_lasts_and_an_unnamed_one_leaves_nothing(tmp_path: Path) -> None:
    ostinato("chat", "-m", "hello", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
    ostinato("chat", "--session", "s1", "-m", "raw please", cwd=tmp_path)
    more = ostinato("chat", "--session", "s1", "-m", "continue", cwd=tmp_path)
    assert (more.returncode, more.stderr) == (0, "")
    assert '→ take_step({"number":6})' in more.stdout
    with serving("--port", "0", cwd=tmp_path) as (_, url):
        here = ostinato("chat", "--session", "s1", "-m", "continue", cwd=tmp_path)
        assert (here.returncode, here.stdout, here.stderr.count("\n")) == (1, "", 1)
        assert here.stderr.endswith(": give its URL instead, as in ostinato chat http://127.0.0.1:8000.\n")
        there = ostinato("chat", url, "--session", "s1", "-m", "continue", cwd=tmp_path)
        assert '→ take_step({"number":11})' in there.stdout


def test_a_server_is_talked_to_with_its_key_and_the_session_is_kept(tmp_path: Path) -> None:
    with serving("--port", "0", cwd=tmp_path, OSTINATO_API_KEYS=f"alice:{KEY}") as (_, url):
        refused = ostinato("chat", url, "-m", "hello", cwd=tmp_path)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith("unauthorized: ")
        asked = ostinato("chat", url, "-m", "raw please", "--session", "s1", "--key", KEY, cwd=tmp_path)
        assert (asked.returncode, asked.stderr) == (0, "")
        assert '→ take_step({"number":5})\n← Step 5 is taken.\n' in asked.stdout
        more = ostinato("chat", f"{url}/agui/", "-m", "continue", "--session", "s1", cwd=tmp_path, OSTINATO_API_KEY=KEY)
        assert '→ take_step({"number":6})' in more.stdout
        lost = ostinato("chat", url, "-m", "x", "--agent", "a/b", "--key", KEY, cwd=tmp_path)
        assert (lost.returncode, lost.stderr.partition(":")[0]) == (1, "not_found")
        failed = ostinato("chat", url, "-m", "error", "--key", KEY, cwd=tmp_path)
        assert (failed.returncode, failed.stderr.partition(":")[0]) == (1, "model_unreachable")


def test_a_server_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    done = ostinato("chat", "http://127.0.0.1:1", "-m", "hello", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("unreachable: http://127.0.0.1:1/agui ")


def test_ctrl_c_stops_the_answer_and_gives_the_prompt_back(tmp_path: Path) -> None:
    with terminal(cwd=tmp_path) as chat:
        chat.expect("> ")
        chat.type("slow\n")
        chat.expect(" 5 ")
        chat.process.send_signal(signal.SIGINT)
        shown = chat.expect("(interrupted)")
        assert "40" not in shown
        chat.expect("> ")
        chat.type("hello\n")
        shown = chat.expect("Hello from Ostinato")
        assert re.search(r"\x1b\[2m.*greets me.*\x1b\[0m", shown)
        chat.expect("> ")
        chat.type("\x04")
        assert chat.process.wait(timeout=30) == 0


def test_ctrl_c_at_the_prompt_only_begins_a_new_line() -> None:
    class Pressed(Screen):
        """Somebody presses Ctrl-C twice and then Ctrl-D."""

        presses = 2

        def read(self) -> str | None:
            self.presses -= 1
            if self.presses >= 0:
                self.show({"type": "TEXT_MESSAGE_CONTENT", "delta": "> "})
                raise KeyboardInterrupt
            return None

    class Nobody:
        async def ask(self, text: str) -> AsyncGenerator[dict[str, Any], None]:
            yield {"type": "RUN_ERROR", "code": "asked", "message": text}

        def resume(self, answers: Sequence[dict[str, Any]]) -> AsyncGenerator[dict[str, Any], None]:
            return self.ask(str(answers))

        async def aclose(self) -> None:
            pass

    out = io.StringIO()
    with asyncio.Runner() as runner:
        assert Chat(Nobody(), runner, Pressed(io.StringIO(), out, out)).converse() == 0
    assert out.getvalue() == "> \n> \n"


@pytest.mark.parametrize("on_disconnect", ["cancel", "continue"])
def test_ctrl_c_closes_the_stream_and_so_stops_the_server_s_tool(on_disconnect: str, tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(AGENTS)
    variables = {"OSTINATO_ON_DISCONNECT": on_disconnect}
    with serving("my_agents.py", "--port", "0", cwd=tmp_path, **variables) as (server, url):
        assert server.stdout is not None
        with terminal(url, "--agent", "rainy", cwd=tmp_path) as chat:
            chat.expect("> ")
            chat.type("wait for rain\n")
            assert any(line == "waiting\n" for line in server.stdout)
            chat.process.send_signal(signal.SIGINT)
            chat.expect("(interrupted)")
            assert any(line == "stopped waiting\n" for line in server.stdout)
            chat.expect("> ")
            chat.type("/exit\n")
            assert chat.process.wait(timeout=30) == 0


def test_ctrl_c_ends_a_single_question_with_exit_code_130(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(AGENTS)
    command = [sys.executable, "-m", "ostinato", "chat", "my_agents.py", "--agent", "rainy", "-m", "wait for rain"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert any(line == "waiting\n" for line in process.stdout)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert "stopped waiting\n" in out
    assert "(interrupted)\n" in out
    assert (process.returncode, err) == (130, "")


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_a_stream_is_read_alike_wherever_its_bytes_are_split() -> None:
    stream = 'data: {"type":"A","delta":"é"}\n\n: ping\n\ndata: {"type":"B"}\n\n'.encode()
    for at in range(len(stream) + 1):
        frames = [frame async for frame in frames_of(pieces(stream[:at], stream[at:]))]
        assert frames == [{"type": "A", "delta": "é"}, {"type": "B"}]


async def test_what_is_no_stream_of_objects_is_a_failure() -> None:
    for stream in (b"data: [1]\n\n", b"data: nonsense\n\n", b"x" * 9_000_000):
        with pytest.raises(Failure, match="not an AG-UI stream"):
            [frame async for frame in frames_of(pieces(stream))]


async def test_a_stream_that_is_cut_and_an_answer_of_somebody_else_s_are_told(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
        status = b"200 OK" if b"POST /cut/" in head else b"404 Not Found"
        body = b'data: {"type":"TEXT_MESSAGE_CONTENT","delta":"so"}\n\n'
        writer.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\n\r\n" + body)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        cut = await asyncio.to_thread(ostinato, "chat", f"{url}/cut", "-m", "x", cwd=tmp_path)
        other = await asyncio.to_thread(ostinato, "chat", f"{url}/other", "-m", "x", cwd=tmp_path)
    assert (cut.returncode, cut.stdout, cut.stderr) == (1, "so\n", "cut: The stream ended before the run did.\n")
    assert (other.returncode, other.stderr.partition(":")[0]) == (1, "http_404")


def test_what_a_model_says_cannot_command_the_terminal() -> None:
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(io.StringIO(), out, err)
    screen.show({"type": "TEXT_MESSAGE_CONTENT", "delta": "a\x1b[2Jb\r\x07c\td\n"})
    screen.show({"type": "TOOL_CALL_RESULT", "content": "one\ntwo\x1b]0;x\x07" + "x" * 1000})
    screen.show({"type": "RUN_ERROR", "code": "internal", "message": "\x1b[31mred"})
    assert screen.finish() == 1
    first, second = out.getvalue().splitlines()
    assert first == "a[2Jbc\td"
    assert second.startswith("← one two]0;xxx")
    assert (len(second), second[-1]) == (199, "…")
    assert err.getvalue() == "internal: [31mred\n"
    assert screen.finish() == 0
