"""The examples run, and the README's promises hold."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from agent_core.names import SessionKey
from app.agents import load
from tests.clients.test_agui_node import FOLDER
from tests.missing import skip_without
from tests.serving import results_of, run, run_input, serving, text_of

ROOT = Path(__file__).parent.parent


async def test_the_agents_of_the_example_answer() -> None:
    loaded = load(str(ROOT / "examples" / "my_agents.py"))
    async with serving(*loaded.agents, converters=loaded.converters) as up:
        frames = await run(up.url, run_input("check the stock of apple"))
        assert json.loads(results_of(frames)[0]) == {"fruit": "apple", "unit": "pieces", "count": 12}
        assert "12" in text_of(frames)


def test_the_library_example_runs() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "library.py"], capture_output=True, text=True, check=True, timeout=60
    )
    assert "2100000" in done.stdout
    assert "tool: population 2700000" in done.stdout


async def told_by(name: str, folder: Path, url: str) -> str:
    """What an example in Node prints, run in this folder."""
    node = shutil.which("node")
    skip_without(node is not None, "Node is not installed")
    skip_without((FOLDER / "node_modules").is_dir(), "the AG-UI client is not installed: npm ci in tests/clients/node")
    assert node is not None
    (folder / "node_modules").symlink_to(FOLDER / "node_modules")
    example = folder / name
    example.write_text((ROOT / "examples" / name).read_text())
    process = await asyncio.create_subprocess_exec(
        node, example, env={"OSTINATO_URL": url + "/agui"}, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_the_node_example_talks_to_the_demo(tmp_path: Path) -> None:
    async with serving() as up:
        told = await told_by("client.mjs", tmp_path, up.url)
    assert re.search(r"tool:  get_weather\n  ->   .*\nWeather in Paris: ", told)


async def test_a_client_may_send_only_what_is_new(tmp_path: Path) -> None:
    async with serving() as up:
        told = await told_by("lean_client.mjs", tmp_path, up.url)
        [session] = (await up.server.app.state.services.engine.sessions.page("local", 9)).sessions
        kept = await up.server.app.state.services.engine.sessions.messages(
            SessionKey(user_id="local", session_id=session.session_id), "demo", list
        )
    found = re.search(r"messages here: (\d+), sent in the requests: 1, 2, 2\n", told)
    assert found is not None
    assert len(kept) == int(found[1]) == 12
    assert (ROOT / "docs" / "agui.md").read_text().count("class LeanAgent extends HttpAgent") == 1


async def test_the_readmes_curl_lines_are_accepted_by_the_demo() -> None:
    readme = (ROOT / "README.md").read_text()
    body = json.loads(re.search(r"-d '(\{.*?\})'", readme, re.DOTALL)[1])  # type: ignore[index]
    async with serving() as up:
        assert "Hello from Ostinato" in text_of(await run(up.url, body))
        assert "完成" in text_of(await run(up.url, run_input("what time is it"), "/agui/clock"))


def test_every_error_code_is_explained_in_the_readme() -> None:
    from agent_core.errors import SENTENCES

    readme = (ROOT / "README.md").read_text()
    later = {"rate_limited", "worker_lost", "store_unavailable"}
    missing = [code for code in SENTENCES if f"`{code}`" not in readme]
    assert set(missing) <= later
