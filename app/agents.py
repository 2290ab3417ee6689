"""The agents that are served: the user's own, from a file or a module, or the demo's."""

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from agent_core.agent import Agent
from agent_core.events import Event
from agent_core.models.providers import open_model
from app.errors import NotFound

ConverterFactory = Callable[[], Any]
"""Makes one converter for one stream; a class without arguments will do."""


class AgentsError(ValueError):
    """The agents cannot be served; the text is one sentence that says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a target holds."""

    agents: tuple[Agent, ...]
    converters: tuple[ConverterFactory, ...] = ()


@dataclass(frozen=True, slots=True)
class Roster:
    """The agents by name; the first is the default. Raises AgentsError (see `check_agents`)."""

    agents: tuple[Agent, ...]

    def __post_init__(self) -> None:
        check_agents(self.agents, "agents")

    @property
    def default(self) -> Agent:
        return self.agents[0]

    def get(self, name: str | None) -> Agent:
        """The agent of that name, the default one for None. Raises NotFound."""
        if name is None:
            return self.default
        for agent in self.agents:
            if agent.name == name:
                return agent
        raise NotFound(f"There is no agent named {name!r} here: GET /agents lists those that are.", param="agent")

    def with_model(self, model: str) -> "Roster":
        """The same agents, all on this model. Raises ValueError if it is not provider:model."""
        return Roster(tuple(replace(agent, model=model) for agent in self.agents))

    def check_models(self) -> None:
        """Raises AgentsError if an agent names a model that has no provider here."""
        for agent in self.agents:
            for model in (agent.model, agent.fallback_model):
                try:
                    if isinstance(model, str):
                        open_model(model)
                except ValueError as exc:
                    raise AgentsError(f"The agent {agent.name!r} cannot run: {exc}.") from None


def names_of(agents: Iterable[Agent]) -> str:
    """The names for people: `clock (default), vessel`. There must be one agent at least."""
    first, *others = (agent.name for agent in agents)
    return ", ".join([f"{first} (default)", *others])


def load(target: str | None) -> Loaded:
    """The agents of a target: `my_agents.py`, or `package.module:attribute` (`agents` by default).

    None stands for the demo agents. A file or module may also define `converters`: classes or functions that make
    one converter for each stream. The file's folder, or the current one, goes to the end of `sys.path`: so it hides
    no package of the server's. Raises AgentsError.
    """
    if target is None:
        # Imported on demand: a server with agents of its own does not need the demo's.
        from app.demo.agents import agents as demo

        return Loaded(agents=check_agents(demo, "the demo"))
    file, attribute = _split(target)
    module = _import_file(file) if file is not None else _import_module(target.partition(":")[0])
    where = target.partition(":")[0] if file is None else file.name
    if not hasattr(module, attribute):
        raise AgentsError(f"{where} has no {attribute!r}: define {attribute} = [Agent(…), …] in it.")
    agents = check_agents(getattr(module, attribute), f"{where}: {attribute}")
    return Loaded(agents=agents, converters=check_converters(getattr(module, "converters", ()), where))


def check_agents(value: object, where: str) -> tuple[Agent, ...]:
    """The value as a tuple. Raises AgentsError unless it is a list of Agents, not empty, whose names differ."""
    if isinstance(value, Agent):
        raise AgentsError(f"{where} is one Agent, but a list of agents is needed: put it in [ ].")
    if not isinstance(value, list | tuple):
        raise AgentsError(f"{where} is of type {type(value).__name__}, but a list of agents is needed.")
    if not value:
        raise AgentsError(f"{where} is empty, but at least one agent is needed.")
    names: set[str] = set()
    for number, agent in enumerate(value, start=1):
        if not isinstance(agent, Agent):
            raise AgentsError(f"{where}: item {number} is of type {type(agent).__name__}, but an Agent is needed.")
        if agent.name in names:
            raise AgentsError(f"{where}: two agents are named {agent.name!r}, but names must differ.")
        names.add(agent.name)
    return tuple(value)


def check_converters(value: object, where: str) -> tuple[ConverterFactory, ...]:
    """The value as a tuple of converter factories, each of which is tried once. Raises AgentsError."""
    if not isinstance(value, list | tuple):
        raise AgentsError(f"{where}: converters is of type {type(value).__name__}, but a list is needed.")
    for number, each in enumerate(value, start=1):
        if not callable(each):
            raise AgentsError(f"{where}: item {number} of converters cannot be called to make a converter.")
        try:
            made = each()
            sound = callable(made.convert) and all(issubclass(claim, Event) for claim in made.claims)
        except Exception as exc:
            raise AgentsError(f"{where}: item {number} of converters makes no converter ({_short(exc)}).") from exc
        if not sound:
            raise AgentsError(f"{where}: item {number} of converters needs `claims`, event classes, and `convert`.")
    return tuple(value)


def _split(target: str) -> tuple[Path | None, str]:
    """The file that a target names (None for a module), and the attribute."""
    match = re.fullmatch(r"(.+\.py)(?::(\w+))?", target)
    if match:
        return Path(match[1]), match[2] or "agents"
    module, _, attribute = target.partition(":")
    if re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", module) and not Path(target).exists():
        return None, attribute or "agents"
    if target and Path(target).exists():
        raise AgentsError(f"{target} is not a Python file: its name must end in .py.")
    raise AgentsError(f"{target!r} is neither a file such as my_agents.py nor a module such as package.module:agents.")


def _import_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise AgentsError(f"There is no file {file}.")
    _append_path(file.parent)
    # A file called app.py or json.py must not replace a module of that name.
    name = file.stem if file.stem.isidentifier() and not _is_taken(file.stem, file) else f"agents_file_{id(file):x}"
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    if spec is None or spec.loader is None:
        raise AgentsError(f"{file} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as exc:
        del sys.modules[name]
        raise AgentsError(_import_failure(str(file), exc)) from exc
    return module


def _is_taken(name: str, file: Path) -> bool:
    if name in sys.modules:
        return True
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin != str(file.resolve())


def _import_module(name: str) -> ModuleType:
    _append_path(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is not None and (name == exc.name or name.startswith(f"{exc.name}.")):
            raise AgentsError(f"There is no module {name} here, nor a file {name}.py.") from exc
        raise AgentsError(_import_failure(name, exc)) from exc
    except BaseException as exc:
        raise AgentsError(_import_failure(name, exc)) from exc


def _append_path(folder: Path) -> None:
    resolved = str(folder.resolve())
    if resolved not in sys.path:
        sys.path.append(resolved)


def _import_failure(where: str, exc: BaseException) -> str:
    return f"{where} cannot be imported ({_line_of(exc)}): {_short(exc)}"[:1000]


def _short(exc: BaseException) -> str:
    return " ".join(f"{type(exc).__name__}: {exc}".split())


def _line_of(exc: BaseException) -> str:
    """The innermost line of the user's code, as `line 3` or `helpers.py, line 3`."""
    if isinstance(exc, SyntaxError) and exc.lineno is not None:
        return f"{Path(exc.filename or '').name} line {exc.lineno}".strip()
    frames = traceback.extract_tb(exc.__traceback__)
    own = [f for f in frames if not f.filename.startswith("<") and not _is_machinery(f.filename)]
    return f"{Path(own[-1].filename).name} line {own[-1].lineno}" if own else "before its first line"


def _is_machinery(filename: str) -> bool:
    """Whether a frame is the server's or an installed package's, and not the user's."""
    here = Path(__file__).resolve().parent.parent
    path = Path(filename).resolve()
    library = Path(importlib.__file__).resolve().parent.parent
    servers = any(path.is_relative_to(here / floor) for floor in ("app", "agent_core", "converters", "ostinato"))
    return servers or "site-packages" in path.parts or path.is_relative_to(library)
