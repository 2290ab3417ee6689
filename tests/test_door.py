"""The public names, and the command that checks whose packages it would run."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import agent_core
import ostinato
from ostinato.__main__ import find_stranger

ROOT = Path(__file__).parent.parent


def python(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_door_gives_the_public_names() -> None:
    from app.main import create_app
    from ostinato import Agent, Engine, ToolContext, ToolError, tool

    assert ostinato.create_app is create_app
    assert (Agent, Engine, tool) == (agent_core.Agent, agent_core.Engine, agent_core.tool)
    assert (ToolContext, ToolError) == (agent_core.ToolContext, agent_core.ToolError)


def test_the_types_of_the_door_are_those_of_its_names() -> None:
    stub = (ROOT / "ostinato" / "__init__.pyi").read_text()
    named = {line.rpartition(" as ")[2] for line in stub.splitlines() if line.startswith("from ")}
    assert named == set(ostinato.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(ostinato, "nothing")  # noqa: B009 - the name is not one that a type checker lets pass


def test_agent_core_gives_every_name_that_it_lists() -> None:
    assert {"Agent", "Engine", "RunInput", "RunResult", "Message", "tool", "ToolContext", "ToolError"} <= set(
        agent_core.__all__
    )
    assert all(hasattr(agent_core, name) for name in agent_core.__all__)
    assert list(agent_core.__all__) == sorted(agent_core.__all__)


def test_every_event_is_a_public_name() -> None:
    events = import_module("agent_core.events")
    own = [each for each in events.Event.__subclasses__() if each.__module__ == events.__name__]
    assert {each.__name__ for each in own} <= set(agent_core.__all__)


def test_an_agent_can_be_imported_without_the_server(tmp_path: Path) -> None:
    code = "import sys; from ostinato import Agent, tool; print({'fastapi', 'uvicorn', 'app'} & set(sys.modules))"
    assert python("-c", code, cwd=tmp_path).stdout.strip() == "set()"


def test_the_module_is_the_command(tmp_path: Path) -> None:
    done = python("-m", "ostinato", "--version", cwd=tmp_path)
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["ostinato,", "version"])


@pytest.mark.parametrize("name", ["app", "converters", "agent_core"])
def test_a_folder_with_a_package_of_the_same_name_is_told_in_one_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise RuntimeError('imported')\n")
    done = python("-m", "ostinato", "serve", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"The package {name!r} that Python finds is {tmp_path / name / '__init__.py'}, not Ostinato's" in done.stderr


def test_a_module_of_the_same_name_counts_too(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("agents = []\n")
    done = python("-m", "ostinato", "--version", cwd=tmp_path)
    assert done.returncode == 1
    assert str(tmp_path / "app.py") in done.stderr


def test_a_folder_that_is_no_package_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    assert python("-m", "ostinato", "--version", cwd=tmp_path).returncode == 0


def test_a_floor_that_is_elsewhere_than_the_door_is_a_stranger(tmp_path: Path) -> None:
    assert find_stranger(ROOT) is None
    assert "'app'" in (find_stranger(tmp_path) or "")
