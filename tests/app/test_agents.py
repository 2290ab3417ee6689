"""The user's agents: how they are loaded, and the errors if they cannot be."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_core.agent import Agent
from app.agents import AgentsError, Roster, load, names_of
from app.errors import NotFound

ONE = "from agent_core.agent import Agent\nagents = [Agent('one', 'fake:fake'), Agent('two', 'fake:fake')]\n"


@pytest.fixture(autouse=True)
def _clean_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(tmp_path)):
            del sys.modules[name]


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_a_file_is_loaded_and_its_folder_goes_to_the_end_of_the_path(tmp_path: Path) -> None:
    target = write(tmp_path / "own" / "my_agents.py", ONE)
    before = list(sys.path)
    assert [agent.name for agent in load(target).agents] == ["one", "two"]
    assert sys.path == [*before, str(tmp_path / "own")]


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path / "neighbour_of_agents.py", "NAME = 'neighbour'\n")
    text = "from neighbour_of_agents import NAME\n" + ONE.replace("'one'", "NAME")
    assert load(write(tmp_path / "my_agents.py", text)).agents[0].name == "neighbour"


def test_a_file_named_like_one_of_our_packages_replaces_nothing(tmp_path: Path) -> None:
    ours = sys.modules["app"]
    assert load(write(tmp_path / "app.py", ONE)).agents[0].name == "one"
    assert sys.modules["app"] is ours
    assert load(write(tmp_path / "colorsys.py", ONE)).agents[0].name == "one"
    assert "site" not in str(getattr(sys.modules.get("colorsys"), "__file__", ""))


def test_another_attribute_of_a_file_can_be_named(tmp_path: Path) -> None:
    target = write(tmp_path / "my_agents.py", ONE.replace("agents =", "others ="))
    assert load(f"{target}:others").agents[1].name == "two"


def test_a_module_of_the_current_folder_is_loaded(tmp_path: Path) -> None:
    write(tmp_path / "a_package" / "__init__.py", "")
    write(tmp_path / "a_package" / "inner.py", ONE + "others = agents[1:]\n")
    assert [agent.name for agent in load("a_package.inner").agents] == ["one", "two"]
    assert [agent.name for agent in load("a_package.inner:others").agents] == ["two"]


MINE = """
class Mine:
    claims = ()

    def convert(self, event):
        return []
"""


def test_converters_of_the_file_come_with_the_agents(tmp_path: Path) -> None:
    loaded = load(write(tmp_path / "my_agents.py", ONE + MINE + "converters = [Mine]\n"))
    assert [each.__name__ for each in loaded.converters] == ["Mine"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("agents = [", "cannot be imported (my_agents.py line 1): SyntaxError"),
        ("import os\nimport nowhere_to_be_found\n", "(my_agents.py line 2): ModuleNotFoundError: No module named"),
        ("x = 1\nraise SystemExit(3)\n", "(my_agents.py line 2): SystemExit: 3"),
        (ONE.replace("one", "no good"), "line 2): ValueError: agent name"),
        ("agent = 1\n", "my_agents.py has no 'agents'"),
        (ONE + "agents = agents[0]\n", "is one Agent"),
        ("agents = {}\n", "is of type dict, but a list"),
        ("agents = []\n", "is empty"),
        (ONE + "class Mine: pass\nconverters = [Mine]\n", "item 1 of converters makes no converter (AttributeError"),
        (ONE + MINE.replace("()", "5") + "converters = [Mine]\n", "item 1 of converters makes no converter (TypeError"),
        (ONE + MINE.replace("()", "(int,)") + "converters = [Mine]\n", "needs `claims`, event classes"),
        ("raise KeyboardInterrupt\n", "cannot be imported (my_agents.py line 1): KeyboardInterrupt"),
        (ONE + "agents.append(1)\n", "item 3 is of type int"),
        (ONE + "agents = agents + agents\n", "two agents are named 'one'"),
        (ONE + "converters = 1\n", "converters is of type int"),
        (ONE + "converters = [1]\n", "item 1 of converters cannot be called"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_one_sentence(text: str, says: str, tmp_path: Path) -> None:
    target = write(tmp_path / "my_agents.py", text)
    with pytest.raises(AgentsError) as caught:
        load(target)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_fault_in_a_neighbour_names_the_neighbours_line(tmp_path: Path) -> None:
    write(tmp_path / "broken_neighbour.py", "\n\n1 / 0\n")
    target = write(tmp_path / "my_agents.py", "import broken_neighbour\n")
    with pytest.raises(AgentsError, match=r"\(broken_neighbour\.py line 3\): ZeroDivisionError"):
        load(target)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("missing.py", "There is no file missing.py"),
        ("folder/missing.py", "There is no file folder/missing.py"),
        ("no_such_module", "There is no module no_such_module here, nor a file no_such_module.py"),
        ("no_such_package.inner:agents", "There is no module no_such_package.inner"),
        ("json:nothing", "json has no 'nothing'"),
        ("notes.txt", "notes.txt is not a Python file"),
        ("what is this", "is neither a file"),
        ("", "is neither a file"),
        (".", "is not a Python file"),
    ],
)
def test_a_wrong_target_is_one_sentence(target: str, says: str, tmp_path: Path) -> None:
    write(tmp_path / "notes.txt", ONE)
    with pytest.raises(AgentsError) as caught:
        load(target)
    assert says in str(caught.value)


def test_the_first_agent_is_the_default() -> None:
    roster = Roster((Agent("one", "fake:fake"), Agent("two", "fake:fake")))
    assert roster.default.name == roster.get(None).name == "one"
    assert roster.get("two").name == "two"
    assert names_of(roster.agents) == "one (default), two"


def test_an_unknown_agent_is_not_found() -> None:
    with pytest.raises(NotFound, match="no agent named 'three'"):
        Roster((Agent("one", "fake:fake"),)).get("three")


def test_the_model_of_all_agents_can_be_replaced() -> None:
    roster = Roster((Agent("one", "fake:fake", max_iterations=3), Agent("two", "openai:x")))
    changed = roster.with_model("openai:gpt-5")
    assert [agent.model for agent in changed.agents] == ["openai:gpt-5", "openai:gpt-5"]
    assert changed.get("one").max_iterations == 3
    assert roster.get("one").model == "fake:fake"


def test_a_roster_of_nobody_is_refused() -> None:
    with pytest.raises(AgentsError, match="empty"):
        Roster(())


def test_a_model_without_a_provider_is_one_sentence() -> None:
    Roster((Agent("one", "fake:fake"),)).check_models()
    with pytest.raises(AgentsError, match="The agent 'one' cannot run: there is no model 'nobody:x'"):
        Roster((Agent("one", "nobody:x"),)).check_models()
