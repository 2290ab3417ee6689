"""The tools in a chat completion request. Its client runs them itself."""

from collections.abc import Iterator
from typing import Any

from agent_core.tools.base import ToolSpec
from converters.bounds import MOST_TOOLS
from converters.fields import Members, an_object, flag_at, list_at, needed_text, object_at, refuse, text_at
from converters.parsing import step
from converters.tools import once_each, spec_of

MODES = ("auto", "none", "required")


def tools_of(members: Members) -> tuple[ToolSpec, ...]:
    """The tools in order. Raises InvalidRequest for a kind other than function, for a name that providers refuse, and
    for a name that comes twice."""
    return once_each(_tools(members))


def _tools(members: Members) -> Iterator[tuple[str, ToolSpec]]:
    for index, each in enumerate(list_at(members, "tools", MOST_TOOLS)):
        path = step("tools", index)
        tool = an_object(each, path)
        if tool.get("type") not in (None, "function"):
            raise refuse(step(path, "type"), "only tools of type 'function' are available here.")
        inside = step(path, "function")
        yield inside, _spec(object_at(tool, "function", path), inside)


def strict_of(members: Members) -> frozenset[str]:
    """The names of the tools whose arguments must follow their schema exactly. Call `tools_of` first: it checks
    them."""
    functions = [object_at(tool, "function") or {} for tool in list_at(members, "tools", MOST_TOOLS)]
    return frozenset(
        str(function["name"])
        for index, function in enumerate(functions)
        if flag_at(function, "strict", step(step("tools", index), "function"))
    )


def choice_of(members: Members, tools: tuple[ToolSpec, ...]) -> str:
    """`auto`, `none`, `required`, or the name of one of the tools. Raises InvalidRequest for any other value."""
    value = members.get("tool_choice")
    if value is None:
        return "auto"
    if isinstance(value, str):
        if value not in MODES:
            raise refuse("tool_choice", f"must be one of {', '.join(MODES)}, or name a function.")
        return value
    choice = an_object(value, "tool_choice")
    if choice.get("type") != "function":
        raise refuse("tool_choice.type", "only 'function' is available here.")
    function = object_at(choice, "function", "tool_choice") or {}
    name = needed_text(function, "name", "tool_choice.function")
    if name in MODES or all(name != spec.name for spec in tools):
        raise refuse("tool_choice.function.name", "is none of the request's tools that can be chosen by name.")
    return name


def _spec(function: dict[str, Any] | None, path: str) -> ToolSpec:
    if function is None:
        raise refuse(path, "is missing.")
    name = needed_text(function, "name", path)
    description = text_at(function, "description", path) or ""
    return spec_of(name, description, object_at(function, "parameters", path), path)
