"""The tools in a request. Its client runs them itself.

1. A name has 1 to 64 of A-Z a-z 0-9 _ -, as providers demand, and comes once.
2. The parameters are a JSON Schema of type object. None, or an empty schema, stands for no parameters.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from agent_core.tools.base import NAME_PATTERN, ToolSpec
from converters.fields import refuse
from converters.parsing import step

_NAME = re.compile(NAME_PATTERN)


def spec_of(name: str, description: str, parameters: object, path: str) -> ToolSpec:
    """The tool at the path. Raises InvalidRequest for a name or a schema that breaks a rule."""
    if not _NAME.fullmatch(name):
        raise refuse(step(path, "name"), "1 to 64 of A-Z a-z 0-9 _ - are allowed.")
    return ToolSpec(name=name, description=description, parameters=_schema(parameters, step(path, "parameters")))


def once_each(found: Iterable[tuple[str, ToolSpec]]) -> tuple[ToolSpec, ...]:
    """The tools in order, from pairs of a path and a tool. Raises InvalidRequest for a name that comes twice."""
    specs: dict[str, ToolSpec] = {}
    for path, spec in found:
        if spec.name in specs:
            raise refuse(step(path, "name"), f"two tools are named {spec.name}.")
        specs[spec.name] = spec
    return tuple(specs.values())


def _schema(parameters: Any, path: str) -> Mapping[str, Any]:
    if parameters is None or parameters == {}:
        return {"type": "object", "properties": {}}
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise refuse(path, "must be a JSON Schema of type object.")
    return {"type": "object", **parameters}
