"""The command line, as a process of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from app.server import bind

KEY = "0123456789abcdef0123"
AGENTS = """
import asyncio, time
from ostinato import Agent, tool

@tool(timeout=None)
def dig_for_treasure() -> str:
    '''Dig for treasure.'''
    print("digging", flush=True)
    time.sleep(600)
    return "nothing"

@tool(timeout=None)
async def wait_for_rain() -> str:
    '''Wait for rain.'''
    print("waiting", flush=True)
    await asyncio.sleep(600)
    return "none"

agents = [Agent("one", "fake:fake", tools=[dig_for_treasure, wait_for_rain])]
"""


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OSTINATO_", "OPENAI_"))}
    return {**kept, **variables}


def ostinato(*arguments: str, cwd: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "ostinato", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment(**variables), capture_output=True, text=True, timeout=60, check=False
    )


@contextmanager
def serving(*arguments: str, cwd: Path, **variables: str) -> Iterator["tuple[subprocess.Popen[str], str]"]:
    """A server and its URL, as it prints it."""
    command = [sys.executable, "-m", "ostinato", "serve", *arguments]
    process = subprocess.Popen(
        command, cwd=cwd, env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        found = re.search(r"http://\S+", first)
        assert found is not None, first + process.communicate()[1]
        yield process, found[0]
    finally:
        process.kill()
        process.communicate()


def get(url: str, key: str = "") -> str:
    with urlopen(Request(url, headers={"authorization": f"Bearer {key}"} if key else {}), timeout=20) as response:
        return str(response.read().decode())


@pytest.mark.parametrize(
    ("arguments", "variables", "says"),
    [
        (["--host", "0.0.0.0"], {}, "set OSTINATO_API_KEYS"),
        (["--store", "mysql"], {}, "--store: 'mysql'… is no store"),
        (["--model", "gpt"], {}, "--model: 'gpt' is not of the form provider:model"),
        (["--model", "nobody:x"], {}, "there is no model 'nobody:x'"),
        (["--port", "70000"], {}, "--port: the value should be less than or equal to 65535"),
        ([], {"OSTINATO_PORT": "70000"}, "OSTINATO_PORT: the value"),
        ([], {"OSTINATO_API_KEYS": "alice:short-secret"}, "the key of 'alice' has 12 characters"),
        (["missing.py"], {}, "There is no file missing.py"),
    ],
)
def test_what_cannot_be_served_is_one_sentence_and_exit_code_1(
    arguments: list[str], variables: dict[str, str], says: str, tmp_path: Path
) -> None:
    done = ostinato("serve", *arguments, cwd=tmp_path, **variables)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
    assert "short-secret" not in done.stderr


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    (taken,) = bind("127.0.0.1", 0)
    with taken:
        port = str(taken.getsockname()[1])
        done = ostinato("serve", "--port", port, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"Port {port} on 127.0.0.1 is in use" in done.stderr


def test_without_a_target_the_demo_agents_are_served(tmp_path: Path) -> None:
    with serving("--port", "0", cwd=tmp_path) as (process, url):
        assert process.stdout is not None
        assert process.stdout.readline() == "Agents: demo (default), clock, vessel\n"
        assert process.stdout.readline().startswith(f"Try: curl -N {url}/agui -H")
        assert '"vessel"' in get(f"{url}/agents")


def test_the_users_own_agents_are_served_with_the_settings_of_the_env_file(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(AGENTS)
    (tmp_path / ".env").write_text(f"OSTINATO_API_KEYS=alice:{KEY}\nOSTINATO_PORT=0\nOSTINATO_HOST=nowhere.invalid\n")
    with serving("my_agents.py", "--host", "127.0.0.1", cwd=tmp_path) as (_, url):
        assert '"dig_for_treasure"' in get(f"{url}/agents", KEY)


def stream(url: str, question: str) -> "subprocess.Popen[str]":
    """A client of a process of its own, so that its socket closes with the server's."""
    code = (
        "import sys, json, urllib.request as u\n"
        "m = {'id': 'm', 'role': 'user', 'content': sys.argv[2]}\n"
        "b = json.dumps({'threadId': 't', 'runId': 'r', 'protocolVersion': '1.0', 'messages': [m]}).encode()\n"
        "r = u.Request(sys.argv[1] + '/agui', b, {'content-type': 'application/json'})\n"
        "for line in u.urlopen(r): print(line.decode(), end='', flush=True)\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, url, question], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


@pytest.mark.parametrize(("question", "sign"), [("wait for rain", "waiting"), ("dig for treasure", "digging")])
def test_sigterm_ends_a_run_with_its_error_and_the_process_by_the_signal(
    question: str, sign: str, tmp_path: Path
) -> None:
    (tmp_path / "my_agents.py").write_text(AGENTS)
    with serving("my_agents.py", "--port", "0", cwd=tmp_path, OSTINATO_DRAIN_SECONDS="0.1") as (process, url):
        client = stream(url, question)
        assert process.stdout is not None
        assert any(line.strip() == sign for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        out, _ = client.communicate(timeout=30)
        assert process.wait(timeout=30) == -signal.SIGTERM
    last = [line for line in out.splitlines() if line.startswith("data: ")][-1]
    assert '"RUN_ERROR"' in last
    assert '"draining"' in last


@pytest.mark.parametrize(("question", "sign"), [("wait for rain", "waiting"), ("dig for treasure", "digging")])
def test_a_second_ctrl_c_ends_the_process_whatever_its_runs_do(question: str, sign: str, tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(AGENTS)
    with serving(
        "my_agents.py", "--port", "0", cwd=tmp_path, OSTINATO_DRAIN_SECONDS="3600", OSTINATO_LOG_LEVEL="debug"
    ) as (process, url):
        client = stream(url, question)
        assert process.stdout is not None
        assert process.stderr is not None
        assert any(line.strip() == sign for line in process.stdout)
        process.send_signal(signal.SIGINT)
        assert any("draining" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == -signal.SIGINT
        client.kill()
        client.communicate()


def test_ctrl_c_ends_an_idle_server_by_the_signal(tmp_path: Path) -> None:
    with serving("--port", "0", cwd=tmp_path) as (process, url):
        get(f"{url}/healthz")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == -signal.SIGINT
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
