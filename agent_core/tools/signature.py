"""A function's parameters: a pydantic model that checks them, and the JSON Schema that a model sees.

Pydantic makes the schema (draft 2020-12) from the annotations; the docstring describes the parameters. Misfits with the
types are told in the same words as misfits with the schema.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, SchemaError

from agent_core.context import ToolContext
from agent_core.tools.complaints import MOST, Complaint, Misfits, not_a_parameter

DATA_KEYWORDS = frozenset({"default", "const", "enum", "examples"})
"""Schema keywords whose values are data. A member `title` in them is no keyword and stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    name: str
    annotation: Any
    default: Any
    positional: bool
    is_context: bool


def field_name(index: int) -> str:
    # Pydantic refuses fields with some names that parameters may have, such as `schema`, `copy` or `_x`.
    return f"p{index}"


def read_signature(tool_name: str, function: Callable[..., Any]) -> tuple[Parameter, ...]:
    hints = _read_hints(tool_name, function)
    found = []
    for index, (name, parameter) in enumerate(inspect.signature(function).parameters.items()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"tool {tool_name}: {parameter} cannot be described to a model: name each parameter")
        if index == 0 and name in ("self", "cls") and name not in hints:
            raise TypeError(f"tool {tool_name}: it has the parameter {name!r}: use tool(thing.method) on an object")
        annotation = hints.get(name, Any)
        found.append(
            Parameter(
                name=name,
                annotation=annotation,
                default=parameter.default,
                positional=parameter.kind is parameter.POSITIONAL_ONLY,
                is_context=_is_context(annotation),
            )
        )
    return tuple(found)


def _read_hints(tool_name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters' annotations, resolved. The result's annotation is ignored, because nothing depends on it."""
    inner = inspect.unwrap(function)
    wanted = {name: each for name, each in inspect.get_annotations(inner).items() if name != "return"}
    known = {"ToolContext": ToolContext, **getattr(inner, "__globals__", {})}
    try:
        return get_type_hints(SimpleNamespace(__annotations__=wanted), known, known, include_extras=True)
    except NameError as error:
        raise TypeError(f"tool {tool_name}: an annotation cannot be resolved: {error}") from error


def _is_context(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _is_context(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return any(_is_context(each) for each in get_args(annotation))
    return annotation is ToolContext


class _Schema(GenerateJsonSchema):
    # A default that JSON has no form for is left out of the schema. That needs no warning.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 (pydantic's declaration)


def describe(
    tool_name: str, signature: tuple[Parameter, ...], described: Mapping[str, str]
) -> tuple[type[BaseModel], dict[str, Any]]:
    fields: dict[str, Any] = {}
    for index, parameter in enumerate(signature):
        if not parameter.is_context:
            fields[field_name(index)] = _field(parameter, described.get(parameter.name, ""))
    try:
        model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
        schema = model.model_json_schema(by_alias=True, schema_generator=_Schema)
    except (PydanticUserError, SchemaError) as error:
        reason = str(error).split("\n", 1)[0]
        raise TypeError(f"tool {tool_name}: its parameters cannot be described as JSON Schema: {reason}") from error
    schema.setdefault("properties", {})
    tidy: dict[str, Any] = _without_titles(schema)
    return model, tidy


def _field(parameter: Parameter, description: str) -> tuple[Any, Any]:
    annotation = parameter.annotation
    options: dict[str, Any] = {"alias": parameter.name}
    if isinstance(parameter.default, FieldInfo):
        annotation = Annotated[annotation, parameter.default]
    own = [each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, FieldInfo)]
    if description and not any(each.description for each in own):
        options["description"] = description
    if parameter.default is not inspect.Parameter.empty and not isinstance(parameter.default, FieldInfo):
        options["default"] = parameter.default
    return annotation, Field(**options)


def _without_titles(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value if key in DATA_KEYWORDS else _without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


def explain(error: ValidationError, names: list[str]) -> Misfits:
    errors = error.errors(include_url=False)
    return Misfits([_complaint(each, names) for each in errors[:MOST]], len(errors[MOST:]))


def _complaint(error: ErrorDetails, names: list[str]) -> Complaint:
    path = error["loc"]
    if error["type"] == "missing":
        return Complaint(path=path, expected="is required")
    if error["type"] == "extra_forbidden":
        return Complaint(path=path, expected=not_a_parameter(names, inside=len(path) > 1))
    return Complaint(path=path, expected=error["msg"], given=error["input"])
