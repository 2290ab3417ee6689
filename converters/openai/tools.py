"""The tools that a chat completion request brings, which its client runs itself."""

import re
from collections.abc import Mapping
from typing import Any

from agent_core.tools.base import NAME_PATTERN, ToolSpec
from converters.fields import Members, an_object, flag_at, list_at, needed_text, object_at, refuse, text_at
from converters.parsing import step

MOST_TOOLS = 128

MODES = ("auto", "none", "required")

_NAME = re.compile(NAME_PATTERN)


def tools_of(members: Members) -> tuple[ToolSpec, ...]:
    """The tools, in order. Raises InvalidRequest for a kind other than function, for a name that providers
    refuse, and for one that comes twice."""
    specs: dict[str, ToolSpec] = {}
    for index, each in enumerate(list_at(members, "tools", MOST_TOOLS)):
        path = step("tools", index)
        tool = an_object(each, path)
        if tool.get("type") not in (None, "function"):
            raise refuse(step(path, "type"), "only tools of type 'function' are available here.")
        spec = _spec(object_at(tool, "function", path), step(path, "function"))
        if spec.name in specs:
            raise refuse(step(step(path, "function"), "name"), f"two tools are named {spec.name}.")
        specs[spec.name] = spec
    return tuple(specs.values())


def strict_of(members: Members) -> frozenset[str]:
    """The names of those tools whose arguments must follow their schema exactly. `tools_of` comes first."""
    functions = [object_at(tool, "function") or {} for tool in list_at(members, "tools", MOST_TOOLS)]
    return frozenset(
        str(function["name"])
        for index, function in enumerate(functions)
        if flag_at(function, "strict", step(step("tools", index), "function"))
    )


def choice_of(members: Members, tools: tuple[ToolSpec, ...]) -> str:
    """`auto`, `none`, `required`, or the name of one of the tools. Raises InvalidRequest for anything else."""
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
    if not _NAME.fullmatch(name):
        raise refuse(step(path, "name"), "1 to 64 of A-Z a-z 0-9 _ - are allowed.")
    description = text_at(function, "description", path) or ""
    return ToolSpec(name=name, description=description, parameters=_schema(function, path))


def _schema(function: dict[str, Any], path: str) -> Mapping[str, Any]:
    schema = object_at(function, "parameters", path)
    if not schema:
        return {"type": "object", "properties": {}}
    if schema.get("type", "object") != "object":
        raise refuse(step(path, "parameters"), "must be a JSON Schema of type object.")
    return {"type": "object", **schema}
