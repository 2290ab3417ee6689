"""Dependencies go downward only: app, converters, agent_core; and inside agent_core, in a written order."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

ALLOWED = {
    "agent_core": {"agent_core"},
    "converters": {"converters", "agent_core"},
    "app": {"app", "converters", "agent_core"},
    "ostinato": {"ostinato", "app", "agent_core"},
}
"""What each floor may import of the others."""

OURS = frozenset(ALLOWED)

BOUNDARY = {
    "agent_core.agent": "an agent, as the user writes it",
    "agent_core.aside": "work beside the event loop: the server parses bodies and makes frames there too",
    "agent_core.clock": "times as clients read them",
    "agent_core.context": "what a tool and the instructions see",
    "agent_core.engine": "the verbs",
    "agent_core.errors": "what goes wrong",
    "agent_core.events": "what happens in a run",
    "agent_core.gate": "how long runs wait for a session, which settings say",
    "agent_core.interrupts": "what waits for a person, and the answers",
    "agent_core.messages": "what was said",
    "agent_core.models.base": "what a request says of the model call, and the time limits that settings set",
    "agent_core.models.providers": "whether there is a provider for a model's name",
    "agent_core.names": "what sessions, runs and titles may be called",
    "agent_core.retold": "what was said before, as events",
    "agent_core.run": "a run that was admitted",
    "agent_core.run_input": "what goes into a run",
    "agent_core.sessions.records": "what the server keeps beside the sessions: the protocol of engine.records",
    "agent_core.sessions.storage": "the store's door: open, verify, accept",
    "agent_core.shortened": "how a text that was cut is known again when a client sends it back",
    "agent_core.stored": "what engine.sessions tells",
    "agent_core.tools.base": "a tool's description, which clients bring too",
    "agent_core.tools.function": "tools, as the user writes them: the demo's",
    "agent_core.usage": "what a run cost",
}
"""The modules of agent_core that the floors above it may import, each with what it is for them. What they need beyond
that is a verb of the engine (`engine.sessions` for what is stored) or of the run that it gives out."""

BEHIND = re.compile(r"\b_?(run\.(lane|scope)|engine\.(store|gate|_runner))$")
"""Attributes that are the engine's own, whoever can see them."""

TRANSPORT = {"fastapi", "starlette", "uvicorn", "sse_starlette", "ag_ui", "pydantic_settings", "click"}
"""What belongs to the upper floors and is never seen by agent_core."""

ORDER = (
    "agent_core.names",
    "agent_core.aside",
    "agent_core.clock",
    "agent_core.plain",
    "agent_core.sizes",
    "agent_core.threads",
    "agent_core.messages",
    "agent_core.shortened",
    "agent_core.pairing",
    "agent_core.usage",
    "agent_core.errors",
    "agent_core.interrupts",
    "agent_core.edits",
    "agent_core.events",
    "agent_core.stored",
    "agent_core.retold",
    "agent_core.context",
    "agent_core.permissions",
    "agent_core.guards.settings",
    "agent_core.tools.base",
    "agent_core.tools.results",
    "agent_core.tools.complaints",
    "agent_core.tools.docstrings",
    "agent_core.tools.signature",
    "agent_core.tools.function",
    "agent_core.models.failures",
    "agent_core.models.keyless.words",
    "agent_core.models.keyless.task",
    "agent_core.models.keyless.samples",
    "agent_core.models.keyless.arguments",
    "agent_core.models.sse_lines",
    "agent_core.models.idle_watch",
    "agent_core.models.http",
    "agent_core.models.base",
    "agent_core.run_input",
    "agent_core.models.keyless.fake",
    "agent_core.models.keyless.demo",
    "agent_core.models.resilient",
    "agent_core.models.think_filter",
    "agent_core.models.tool_deltas",
    "agent_core.models.openai_fields",
    "agent_core.models.openai_chunks",
    "agent_core.models.openai_messages",
    "agent_core.models.openai_chat",
    "agent_core.models.providers",
    "agent_core.agent",
    "agent_core.sessions.patches",
    "agent_core.sessions.state",
    "agent_core.sessions.tree",
    "agent_core.sessions.turns",
    "agent_core.sessions.merging",
    "agent_core.sessions.standing",
    "agent_core.sessions.checks",
    "agent_core.sessions.kinds",
    "agent_core.sessions.entries",
    "agent_core.sessions.history",
    "agent_core.sessions.earlier",
    "agent_core.sessions.records",
    "agent_core.sessions.store",
    "agent_core.sessions.folds",
    "agent_core.sessions.pages",
    "agent_core.sessions.journal.key",
    "agent_core.sessions.journal.anchor_file",
    "agent_core.sessions.journal.anchor",
    "agent_core.sessions.journal.chain",
    "agent_core.sessions.journal.check",
    "agent_core.sessions.journal.report",
    "agent_core.sessions.journal.states",
    "agent_core.sessions.journal.verify",
    "agent_core.sessions.journal.accept",
    "agent_core.sessions.sql.failures",
    "agent_core.sessions.sql.tables",
    "agent_core.sessions.sql.migrations",
    "agent_core.sessions.sql.work",
    "agent_core.sessions.sql.statements",
    "agent_core.sessions.sql.continuity",
    "agent_core.sessions.sql.records",
    "agent_core.sessions.sql.transactions",
    "agent_core.sessions.sql.database_file",
    "agent_core.sessions.sql.sqlite",
    "agent_core.sessions.sql.postgres",
    "agent_core.sessions.sql.store",
    "agent_core.sessions.sql.offline",
    "agent_core.sessions.sql.acceptance",
    "agent_core.sessions.in_memory",
    "agent_core.sessions.data_dir",
    "agent_core.sessions.storage",
    "agent_core.sessions.heartbeat",
    "agent_core.sessions.writer",
    "agent_core.sessions.leases",
    "agent_core.sessions.timed_records",
    "agent_core.gate",
    "agent_core.react.stopping",
    "agent_core.sessions.copies.fork",
    "agent_core.sessions.copies.snapshot",
    "agent_core.sessions.copies.portable",
    "agent_core.react.opening.align",
    "agent_core.react.opening.request",
    "agent_core.react.opening.adopt",
    "agent_core.react.opening.client_calls",
    "agent_core.room",
    "agent_core.react.emitter",
    "agent_core.react.reply",
    "agent_core.checking.misfits",
    "agent_core.checking.costs",
    "agent_core.checking.schemas",
    "agent_core.checking.arguments",
    "agent_core.react.calls.batch",
    "agent_core.guards.repetition",
    "agent_core.guards.digests",
    "agent_core.guards.confidence",
    "agent_core.guards.watch",
    "agent_core.react.changes",
    "agent_core.react.contexts",
    "agent_core.react.scope",
    "agent_core.react.lane",
    "agent_core.react.calls.verdict",
    "agent_core.react.calls.tool_call",
    "agent_core.react.calls.result",
    "agent_core.react.acting",
    "agent_core.react.opening.decisions",
    "agent_core.react.opening.report",
    "agent_core.react.opening.begin",
    "agent_core.react.turn",
    "agent_core.react.endings",
    "agent_core.react.loop",
    "agent_core.react.snapshot",
    "agent_core.run",
    "agent_core.admission",
    "agent_core.histories",
    "agent_core.runner",
    "agent_core.stored_run",
    "agent_core.stored_sessions",
    "agent_core.channel",
    "agent_core.engine",
)
"""Inside agent_core a module imports only modules that stand before it here."""


def modules(floor: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / floor).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(tree: ast.AST) -> Iterator[str]:
    """The modules that the code imports, wherever in it; `from a import b` counts as `a.b` too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def upward(floor: str, source: str) -> list[str]:
    """The imports of another floor that this floor may not know."""
    found = {name for name in imports(ast.parse(source)) if name.partition(".")[0] in OURS - ALLOWED[floor]}
    return sorted(found)


@pytest.mark.parametrize("floor", sorted(ALLOWED))
def test_a_floor_imports_only_floors_below_it(floor: str) -> None:
    wrong = {name: found for name, path in modules(floor) if (found := upward(floor, path.read_text(encoding="utf-8")))}
    assert wrong == {}


def test_an_import_upward_would_be_noticed() -> None:
    assert upward("agent_core", "def f():\n    from converters.agui import stream_order\n") != []
    assert upward("converters", "import app.main") == ["app.main"]
    assert upward("app", "from agent_core.engine import Engine\nimport converters.chain") == []


def beyond(source: str) -> list[str]:
    """What this code of an upper floor uses of agent_core's inside: modules and attributes."""
    tree = ast.parse(source)
    inside = {name for name in imports(tree) if name == "agent_core" or name in ORDER}
    attributes = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return sorted(inside - set(BOUNDARY)) + sorted(name for name in attributes if BEHIND.search(name))


@pytest.mark.parametrize("floor", ["app", "converters"])
def test_the_engine_is_a_boundary(floor: str) -> None:
    wrong = {name: found for name, path in modules(floor) if (found := beyond(path.read_text(encoding="utf-8")))}
    assert wrong == {}


def test_every_module_at_the_boundary_is_used_above_it() -> None:
    used = {found for floor in ("app", "converters") for _, path in modules(floor) for found in imports(parsed(path))}
    assert sorted(set(BOUNDARY) - used) == []


def test_a_reach_behind_the_engine_would_be_noticed() -> None:
    assert beyond("from agent_core.sessions.leases import answer_of") == ["agent_core.sessions.leases"]
    assert beyond("import agent_core") == ["agent_core"]
    assert beyond("found = await self._engine.store.load(key)") == ["self._engine.store"]
    assert beyond("served._run.lane.history") == ["served._run.lane"]
    assert beyond("request.scope, run.key, engine.sessions") == []


def test_agent_core_knows_nothing_of_servers_and_wires() -> None:
    wrong = {
        (name, found)
        for name, path in modules("agent_core")
        for found in imports(parsed(path))
        if found.partition(".")[0] in TRANSPORT
    }
    assert wrong == set()


def test_converters_neither_wait_nor_touch_the_network() -> None:
    io = {"asyncio", "anyio", "socket", "httpx", "aiohttp", "threading", "fastapi", "starlette", "uvicorn"}
    for name, path in modules("converters"):
        tree = parsed(path)
        assert not {found.partition(".")[0] for found in imports(tree)} & io, name
        waiting = [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.Await)]
        assert waiting == [], name


def test_the_written_order_names_every_module_of_agent_core_once() -> None:
    real = {name for name, path in modules("agent_core") if path.name != "__init__.py"}
    assert sorted(ORDER) == sorted(real)


def test_inside_agent_core_imports_go_backward_in_the_written_order() -> None:
    place = {name: number for number, name in enumerate(ORDER)}
    wrong = [
        f"{name} imports {found}"
        for name, path in modules("agent_core")
        if name in place
        for found in sorted(set(imports(parsed(path))))
        if found == "agent_core" or (found in place and place[found] >= place[name])
    ]
    assert wrong == []


@pytest.mark.parametrize("floor", sorted(ALLOWED))
def test_no_import_hides_under_type_checking(floor: str) -> None:
    hidden = [
        name
        for name, path in modules(floor)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    assert hidden == []


@pytest.mark.parametrize("floor", sorted(ALLOWED))
def test_a_package_file_holds_names_and_no_logic(floor: str) -> None:
    allowed = ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.Expr
    for name, path in modules(floor):
        # The door fetches its names lazily, which takes one function; its docstring says why.
        if path.name == "__init__.py" and name != "ostinato":
            assert all(isinstance(node, allowed) for node in parsed(path).body), name


def test_no_file_is_longer_than_330_lines() -> None:
    lengths = {
        name: len(path.read_text(encoding="utf-8").splitlines()) for floor in ALLOWED for name, path in modules(floor)
    }
    assert {name: length for name, length in lengths.items() if length > 330} == {}


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The groups of folders of which each is imported by all others, if only by way of some."""

    def reached(start: str) -> set[str]:
        found, left = set[str](), [start]
        while left:
            for each in edges.get(left.pop(), ()):
                if each not in found:
                    found.add(each)
                    left.append(each)
        return found

    after = {folder: reached(folder) for folder in edges}
    groups = {tuple(sorted(each for each in found if folder in after.get(each, ()))) for folder, found in after.items()}
    return sorted(list(group) for group in groups if group)


def folder_edges(imported: dict[str, set[str]]) -> dict[str, set[str]]:
    """Which folder imports which: of two modules the folders in which their names begin to differ."""
    edges: dict[str, set[str]] = {}
    for name, found in imported.items():
        for other in found:
            mine, theirs = name.split("."), other.split(".")
            at = next(place for place, (one, two) in enumerate(zip(mine, theirs, strict=False)) if one != two)
            if at < len(mine) - 1 and at < len(theirs) - 1:
                edges.setdefault(".".join(mine[: at + 1]), set()).add(".".join(theirs[: at + 1]))
    return edges


def real_imports() -> dict[str, set[str]]:
    real = {name: path for floor in ALLOWED for name, path in modules(floor) if path.name != "__init__.py"}
    return {name: {found for found in imports(parsed(path)) if found in real} for name, path in real.items()}


def test_no_two_folders_import_each_other() -> None:
    assert circles(folder_edges(real_imports())) == []


def test_a_circle_of_folders_would_be_noticed() -> None:
    found = {"a.b.x": {"a.c.y"}, "a.c.f.z": {"a.d.z"}, "a.d.z": {"a.b.w"}, "a.e.x": {"a.e.f.y"}, "a.e.f.y": {"a.e.z"}}
    assert circles(folder_edges(found)) == [["a.b", "a.c", "a.d"]]


def test_no_function_fills_more_than_a_screen() -> None:
    functions = {
        f"{name}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for floor in ALLOWED
        for name, path in modules(floor)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in functions.items() if lines > 50} == {}
