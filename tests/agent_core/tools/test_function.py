"""Functions made tools: the schema of each kind of annotation, the docstrings, the decorator."""

import enum
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field

from agent_core.agent import Agent
from agent_core.context import ToolContext
from agent_core.errors import ToolError
from agent_core.tools.base import Tool
from agent_core.tools.function import tool

CONTEXT = ToolContext(agent="a", user_id="u", session_id="s", run_id="r", call_id="call_7")


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(BaseModel):
    width: int
    title: str = "none"


@dataclass
class Point:
    x: int
    y: float


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    return dict(tool(function).spec.parameters)


def takes(annotation: Any) -> Callable[..., Any]:
    def take(value: Any) -> Any:
        return value

    take.__annotations__["value"] = annotation
    return take


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
        (date, {"type": "string", "format": "date"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Annotated[int, Field(ge=1, description="n")], {"type": "integer", "minimum": 1, "description": "n"}),
        (Annotated[str, Field(pattern="^C", examples=["C1"])], {"type": "string", "pattern": "^C", "examples": ["C1"]}),
        (Color, {"$ref": "#/$defs/Color"}),
        (Size, {"$ref": "#/$defs/Size"}),
        (list[Point], {"type": "array", "items": {"$ref": "#/$defs/Point"}}),
    ],
)  # fmt: skip
def test_each_kind_of_annotation_has_its_schema(annotation: Any, expected: dict[str, Any]) -> None:
    schema = schema_of(takes(annotation))
    assert schema["properties"] == {"value": expected}
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["value"], False)
    assert ("$defs" in schema) == ("$ref" in str(expected))


def test_nested_models_keep_their_definitions_and_lose_their_titles() -> None:
    schema = schema_of(takes(Size))
    assert schema["$defs"]["Size"]["properties"] == {
        "width": {"type": "integer"},
        "title": {"type": "string", "default": "none"},
    }
    assert "title" not in {*schema, *schema["$defs"]["Size"]}


def test_a_tool_without_parameters_has_an_empty_schema() -> None:
    def ping() -> str:
        return "pong"

    assert schema_of(ping) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_defaults_stand_in_the_schema_and_make_a_parameter_optional() -> None:
    def take(a: int, b: int = 3, c: str | None = None, d: Any = object(), e: Any = Field("x", description="E")) -> None:  # noqa: B008
        pass

    schema = schema_of(take)
    assert schema["required"] == ["a"]
    assert schema["properties"]["b"] == {"type": "integer", "default": 3}
    assert schema["properties"]["c"]["default"] is None
    assert schema["properties"]["d"] == {}
    assert schema["properties"]["e"] == {"default": "x", "description": "E"}


def test_parameters_without_annotations_take_anything() -> None:
    def take(a, b=1):  # type: ignore[no-untyped-def]
        return a

    assert schema_of(take)["properties"] == {"a": {}, "b": {"default": 1}}


async def test_names_that_pydantic_keeps_for_itself_are_names_of_parameters_too(threads: Executor) -> None:
    def take(schema: int, copy: int, _hidden: int, model_config: int, self_: int) -> list[int]:
        return [schema, copy, _hidden, model_config, self_]

    made = tool(take)
    arguments = {"schema": 1, "copy": 2, "_hidden": 3, "model_config": 4, "self_": 5}
    assert list(made.spec.parameters["properties"]) == list(arguments)
    assert await made.run(arguments, CONTEXT, threads) == "[1,2,3,4,5]"


def google(city: str, days: int) -> None:
    """Look up the weather.

    It is a forecast: for a few days.

    Args:
        city: Where, in
            English.
        days (int): How many.

    Returns:
        A sentence.
    """


def numpy(city: str, days: int) -> None:
    """Look up the weather.

    It is a forecast: for a few days.

    Parameters
    ----------
    city : str
        Where, in
        English.
    days : int
        How many.

    Returns
    -------
    A sentence.
    """


def rest(city: str, days: int) -> None:
    """Look up the weather.

    It is a forecast: for a few days.

    :param city: Where, in
        English.
    :param int days: How many.
    :returns: A sentence.
    """


@pytest.mark.parametrize("function", [google, numpy, rest])
def test_each_style_of_docstring_describes_the_tool_and_its_parameters(function: Callable[..., Any]) -> None:
    spec = tool(function).spec
    properties = spec.parameters["properties"]
    assert properties["city"]["description"] == "Where, in English."
    assert properties["days"]["description"] == "How many."
    assert spec.description.startswith("Look up the weather.\n\nIt is a forecast: for a few days.")
    assert "A sentence." in spec.description
    assert "Where" not in spec.description


@pytest.mark.parametrize("text", ["时间查询: the local time, such as what time is it", "One.\n\nNote:\n    Two.", ""])
def test_a_docstring_without_parameters_is_the_description_as_it_is(text: str) -> None:
    def take() -> None: ...

    take.__doc__ = text
    assert tool(take).spec.description == text


def test_a_description_in_the_annotation_wins_over_the_docstring() -> None:
    def take(a: Annotated[int, Field(description="mine")]) -> None:
        """Take.

        Args:
            a: theirs
        """

    assert schema_of(take)["properties"]["a"]["description"] == "mine"


@pytest.mark.parametrize(
    "annotation",
    [
        ToolContext,
        "ToolContext",
        ToolContext | None,
        Optional[ToolContext],  # noqa: UP045
        "ToolContext | None",
        Annotated[ToolContext, "the call"],
        Annotated["ToolContext", "the call"],
    ],
)
async def test_the_context_is_filled_in_and_hidden(annotation: Any, threads: Executor) -> None:
    async def take(value: int, context: Any = None) -> str:
        """Take.

        Args:
            value: a number
            context: the call
        """
        return f"{value} {context.call_id}"

    take.__annotations__["context"] = annotation
    made = tool(take)
    assert list(made.spec.parameters["properties"]) == ["value"]
    assert await made.run({"value": 1}, CONTEXT, threads) == "1 call_7"
    with pytest.raises(ToolError, match="context: is not a parameter; known are: value"):
        await made.run({"value": 1, "context": {}}, CONTEXT, threads)


async def test_positional_only_parameters_are_filled_by_position(threads: Executor) -> None:
    def take(a: int, context: ToolContext, /, b: int, *, c: int) -> list[Any]:
        return [a, context.call_id, b, c]

    assert await tool(take).run({"c": 3, "b": 2, "a": 1}, CONTEXT, threads) == '[1,"call_7",2,3]'


def many(*values: int) -> None: ...


def named(**values: int) -> None: ...


def counting() -> Iterator[int]:
    yield 1


async def ticking() -> AsyncIterator[int]:
    yield 1


def lost(value: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def foreign(value: threading.Event) -> None: ...


def calling(value: Callable[[], int]) -> None: ...


class Thing:
    def double(self, value: int) -> int:
        """Double it."""
        return 2 * value


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (many, r"\*values: int cannot be described to a model"),
        (named, r"\*\*values: int cannot be described to a model"),
        (counting, "a generator cannot be a tool"),
        (ticking, "a generator cannot be a tool"),
        (lost, "'Nowhere' is not defined"),
        (foreign, "cannot be described as JSON Schema"),
        (calling, "cannot be described as JSON Schema"),
        (Thing.double, r"use tool\(thing.method\)"),
        (Thing, "a function or a bound method is needed"),
        ("name", "a function or a bound method is needed"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_in_a_sentence(function: Any, sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        tool(function)


@pytest.mark.parametrize("name", ["", "two words", "x" * 65, "é", "line\n"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="tool name"):
        tool(google, name=name)


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_that_is_not_positive_is_refused(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        tool(google, timeout=timeout)


def test_the_decorator_takes_options_and_has_defaults() -> None:
    @tool(name="other", approval=True, timeout=None, exclusive=True, repeatable=True)
    def first() -> str:
        return "1"

    @tool
    def second() -> str:
        return "2"

    assert (first.spec.name, first.approval, first.timeout) == ("other", True, None)
    assert (second.spec.name, second.approval, second.timeout) == ("second", False, 30.0)
    assert (first.exclusive, first.repeatable, second.exclusive, second.repeatable) == (True, True, False, False)
    both: list[Tool] = [first, second]
    assert [each.spec.name for each in Agent(name="a", model="fake:fake", tools=both).tools] == ["other", "second"]


def test_a_tool_stays_callable_like_its_function() -> None:
    made = tool(Thing().double)
    assert made(4) == 8
    assert (made.__name__, made.__doc__) == ("double", "Double it.")  # type: ignore[attr-defined]
    assert list(inspect.signature(made).parameters) == ["value"]
    assert repr(made) == "FunctionTool('double')"


async def test_a_bound_method_runs_on_its_object(threads: Executor) -> None:
    assert await tool(Thing().double).run({"value": 4}, CONTEXT, threads) == "8"
