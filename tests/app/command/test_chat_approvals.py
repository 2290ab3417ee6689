"""`ostinato chat` with calls that need an approval: on a terminal, and without one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.app.command.test_chat import Terminal, talk, terminal
from tests.app.command.test_cli import ostinato, serving

QUESTION = "? [y/n/e] "
AGENTS = """
from ostinato import Agent, tool
from agent_core.tools.base import Pending

@tool
def get_weather(city: str) -> Pending:
    '''Weather: asks somebody far away.'''
    return Pending(operation_id="op1")

agents = [Agent("far", "fake:demo", tools=[get_weather])]
"""


@contextmanager
def asked(where: str, cwd: Path) -> Iterator[Terminal]:
    """A terminal in which the demo asks whether it may send its email: in process, or at a server."""

    @contextmanager
    def address() -> Iterator[list[str]]:
        if where == "here":
            yield []
            return
        with serving("--port", "0", cwd=cwd) as (_, url):
            yield [url]

    with address() as arguments, terminal(*arguments, cwd=cwd) as chat:
        chat.expect("> ")
        chat.type("approve email\n")
        shown = chat.expect(QUESTION)
        assert '"subject": "Hello from Ostinato"' in shown, "long arguments are shown whole"
        yield chat
        chat.expect("> ")
        chat.type("/exit\n")
        assert chat.process.wait(timeout=30) == 0


@pytest.mark.parametrize("where", ["here", "there"])
def test_y_approves(where: str, tmp_path: Path) -> None:
    with asked(where, tmp_path) as chat:
        chat.type("y\n")
        chat.expect("← Written to team@example.com")
        chat.expect("The email was approved")


@pytest.mark.parametrize("where", ["here", "there"])
def test_n_asks_why_and_denies(where: str, tmp_path: Path) -> None:
    with asked(where, tmp_path) as chat:
        chat.type("n\n")
        chat.expect("Why not? (may be empty) ")
        chat.type("not today\n")
        chat.expect("← Denied: ")
        assert "not today" in chat.expect("it was denied")


@pytest.mark.parametrize("where", ["here", "there"])
def test_e_lets_the_arguments_be_edited_where_they_stand(where: str, tmp_path: Path) -> None:
    with asked(where, tmp_path) as chat:
        chat.type("e\n")
        chat.expect('to agree to it."}')
        chat.type('\x01\x0b{"to":"bob","subject":"s","body":"b"}\n')
        chat.expect('send_email(to="bob", subject="s", body="b")? [y/n/e] ')
        chat.type("y\n")
        chat.expect('← A person changed the arguments to {"to":"bob","subject":"s","body":"b"}.')


@pytest.mark.parametrize("where", ["here", "there"])
def test_an_edit_that_does_not_fit_is_said_and_the_person_is_asked_again(where: str, tmp_path: Path) -> None:
    with asked(where, tmp_path) as chat:
        chat.type("e\n")
        chat.expect('to agree to it."}')
        chat.type('\x01\x0b{"too":"bob","subject":"s","body":"b"}\n')
        chat.expect(QUESTION)
        chat.type("y\n")
        chat.expect("invalid_request: resume[0].payload.arguments.to")
        assert '"to": "team@example.com"' in chat.expect(QUESTION)
        chat.type("y\n")
        chat.expect("← Written to team@example.com")


def test_the_line_that_is_edited_holds_the_arguments(tmp_path: Path) -> None:
    with asked("here", tmp_path) as chat:
        chat.type("e\n")
        chat.expect('to agree to it."}')
        chat.type("\n")
        chat.expect(QUESTION)
        chat.type("y\n")
        chat.expect("← Written to team@example.com")


def test_ctrl_d_leaves_the_question_open_and_the_next_message_settles_it(tmp_path: Path) -> None:
    with asked("here", tmp_path) as chat:
        chat.type("\x04")
        chat.expect("(waits for an approval: send_email(")
        chat.expect("> ")
        chat.type("hello\n")
        chat.expect("← Not run: ")
        chat.expect("Hello from Ostinato")


def test_a_single_question_on_a_terminal_is_asked_about_too(tmp_path: Path) -> None:
    with terminal("-m", "approve email", cwd=tmp_path) as chat:
        chat.expect(QUESTION)
        chat.type("y\n")
        chat.expect("The email was approved")
        assert chat.process.wait(timeout=30) == 0


def test_without_a_terminal_it_says_what_waits_and_ends_with_exit_code_3(tmp_path: Path) -> None:
    done = ostinato("chat", "-m", "approve email", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    call, waits = done.stdout.splitlines()
    assert call.startswith("→ send_email({")
    assert waits.startswith('(waits for an approval: send_email(to="team@example.com", ')


def test_what_stands_behind_in_a_pipe_answers_nothing(tmp_path: Path) -> None:
    done = talk("approve email\ny\nhello\n", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    assert "Written to" not in done.stdout
    assert len(done.stdout.splitlines()) == 2


def test_it_is_the_same_at_a_server(tmp_path: Path) -> None:
    with serving("--port", "0", cwd=tmp_path) as (_, url):
        done = ostinato("chat", url, "-m", "approve email", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (3, "")
        assert "(waits for an approval: send_email(" in done.stdout


def test_an_operation_is_not_the_person_s_to_answer(tmp_path: Path) -> None:
    (tmp_path / "far.py").write_text(AGENTS)
    done = ostinato("chat", "far.py", "-m", "weather in Paris", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout.endswith("(waits for a result from outside: get_weather)\n")
    with terminal("far.py", "-m", "weather in Paris", cwd=tmp_path) as chat:
        chat.expect("(waits for a result from outside: get_weather)")
        assert chat.process.wait(timeout=30) == 3
