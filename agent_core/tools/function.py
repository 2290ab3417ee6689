"""Makes a tool of a typed function. Its signature and docstring tell the model how to call it.

The parameters' annotations become the JSON Schema; pydantic makes it (draft 2020-12). The docstring's text becomes the
tool's description. Its section on parameters (Google, NumPy or reST style) becomes theirs.
"""

import asyncio
import contextvars
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial, update_wrapper
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Generic, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, SchemaError

from agent_core.context import ToolContext
from agent_core.errors import ToolError
from agent_core.plain import BETTER, NoJson
from agent_core.tools.base import NAME_PATTERN, Result, ToolSpec
from agent_core.tools.complaints import MOST, Complaint, Misfits, not_a_parameter
from agent_core.tools.docstrings import read_docstring
from agent_core.tools.results import NOTHING, result_from

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

DATA_KEYWORDS = frozenset({"default", "const", "enum", "examples"})
"""Schema keywords whose values are data. A member `title` in them is no keyword and stays."""


class FunctionTool(Generic[P, R]):
    """A function that a model may call, made by `tool`. It can still be called like the function.

    `spec`, `approval`, `timeout`, `idempotent`, `exclusive` and `repeatable` are as in the protocol `Tool`.
    """

    # No slots, because the object has the function's __name__, __doc__ and __wrapped__.

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        approval: bool = False,
        timeout: float | None = 30.0,
        idempotent: bool = False,
        exclusive: bool = False,
        repeatable: bool = False,
    ) -> None:
        self._function: Callable[P, R] = function
        if not (inspect.isfunction(function) or inspect.ismethod(function)):
            raise TypeError(f"{function!r} cannot be a tool: a function or a bound method is needed")
        name = function.__name__ if name is None else name
        if not re.fullmatch(NAME_PATTERN, name):
            raise ValueError(f"tool name {name!r}: 1 to 64 of A-Z a-z 0-9 _ - are allowed")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"tool {name}: timeout is {timeout}, but it must be more than 0 seconds, or None")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"tool {name}: a generator cannot be a tool, because a tool gives one result: return it")
        self._signature = _read_signature(name, function)
        description, described = read_docstring(inspect.getdoc(function) or "")
        self._model, schema = _describe(name, self._signature, described)
        self.spec = ToolSpec(name=name, description=description, parameters=schema)
        self.approval = approval
        self.timeout = timeout
        self.idempotent = idempotent
        self.exclusive = exclusive
        self.repeatable = repeatable
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"FunctionTool({self.spec.name!r})"

    async def run(self, arguments: Mapping[str, Any], context: ToolContext, threads: Executor) -> Result:
        """Validate the arguments, call the function, and make the result (results.py).

        Validation is pydantic's lax mode, in which "3" is an int. A synchronous function runs in `threads` with a copy
        of the context variables, and its result is made there too. If the call is cancelled before a thread is free,
        the function does not run.

        Raises ToolError if the arguments do not fit, and if the return value is no JSON. What the function raises is
        passed on unchanged.
        """
        call = self._bind(arguments, context)
        if inspect.iscoroutinefunction(self._function):
            return self._result(await call())
        loop = asyncio.get_running_loop()
        context.queued.set()
        work = partial(_call, call, context, self._result)
        made = await loop.run_in_executor(threads, contextvars.copy_context().run, work)
        return self._result(await made.awaitable) if isinstance(made, _Later) else made

    def _result(self, value: Any) -> Result:
        try:
            return result_from(value)
        except NoJson as error:
            if inspect.iscoroutine(value):
                value.close()  # nobody awaits it any more
            logger.warning(
                "tool %s ran, but returned what is no JSON (%s): return %s", self.spec.name, error.kind, BETTER
            )
            raise ToolError(f"the tool ran, but what it returned cannot be shown: {error.kind} is no JSON.") from error

    def misfits(self, arguments: Mapping[str, Any]) -> Misfits | None:
        """The misfits of the arguments with the function's own types, or None. The types may refuse more than the
        schema can say. Only validators are called, and not the function."""
        found = self._validated(arguments)
        return found if isinstance(found, Misfits) else None

    def _validated(self, arguments: Mapping[str, Any]) -> BaseModel | Misfits:
        try:
            return self._model.model_validate(dict(arguments))
        except ValidationError as error:
            return _explain(error, [each.name for each in self._signature if not each.is_context])

    def _bind(self, arguments: Mapping[str, Any], context: ToolContext) -> Callable[[], Any]:
        validated = self._validated(arguments)
        if isinstance(validated, Misfits):
            raise ToolError(str(validated))
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for index, parameter in enumerate(self._signature):
            value = context if parameter.is_context else getattr(validated, _field_name(index))
            if parameter.positional:
                positional.append(value)
            else:
                named[parameter.name] = value
        return partial(self._function, *positional, **named)


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    approval: bool = False,
    timeout: float | None = 30.0,
    idempotent: bool = False,
    exclusive: bool = False,
    repeatable: bool = False,
) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    approval: bool = False,
    timeout: float | None = 30.0,
    idempotent: bool = False,
    exclusive: bool = False,
    repeatable: bool = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a function or a bound method: `@tool`, `@tool(timeout=5)` or `tool(thing.method)`.

    - name: the tool's name for the model; by default the function's name
    - approval: a person must agree before it runs
    - timeout: seconds for one call, None for no limit
    - idempotent: a call that a crash has cut off may run again, with the same idempotency key
    - exclusive: no other call of the run runs beside it
    - repeatable: it may be called any number of times, as a tool that polls is; the guards on repeats and on calls of
      one tool do not count it

    A parameter with the annotation ToolContext is filled in and hidden from the model. Raises TypeError for a signature
    that cannot be described, ValueError for a bad name or timeout.
    """
    if function is None:
        return partial(FunctionTool, **options)
    return FunctionTool(function, **options)


@dataclass(frozen=True, slots=True)
class _Later:
    """An awaitable that a synchronous function returned. It must be awaited in the event loop."""

    awaitable: Awaitable[Any]


def _call(function: Callable[[], Any], context: ToolContext, make: Callable[[Any], Result]) -> Result | _Later:
    context.queued.clear()
    if context.cancelled.is_set():  # after `clear`: if somebody cancels and still finds it queued, it will not run
        return NOTHING
    try:
        value = function()
        return _Later(value) if inspect.isawaitable(value) else make(value)
    except StopIteration as error:
        # A future cannot hold a StopIteration, and the call would never end.
        raise RuntimeError("the tool raised StopIteration") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameter:
    name: str
    annotation: Any
    default: Any
    positional: bool
    is_context: bool


def _field_name(index: int) -> str:
    # Pydantic refuses fields with some names that parameters may have, such as `schema`, `copy` or `_x`.
    return f"p{index}"


def _read_signature(tool_name: str, function: Callable[..., Any]) -> tuple[_Parameter, ...]:
    hints = _read_hints(tool_name, function)
    found = []
    for index, (name, parameter) in enumerate(inspect.signature(function).parameters.items()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"tool {tool_name}: {parameter} cannot be described to a model: name each parameter")
        if index == 0 and name in ("self", "cls") and name not in hints:
            raise TypeError(f"tool {tool_name}: it has the parameter {name!r}: use tool(thing.method) on an object")
        annotation = hints.get(name, Any)
        found.append(
            _Parameter(
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


def _describe(
    tool_name: str, signature: tuple[_Parameter, ...], described: Mapping[str, str]
) -> tuple[type[BaseModel], dict[str, Any]]:
    fields: dict[str, Any] = {}
    for index, parameter in enumerate(signature):
        if not parameter.is_context:
            fields[_field_name(index)] = _field(parameter, described.get(parameter.name, ""))
    try:
        model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
        schema = model.model_json_schema(by_alias=True, schema_generator=_Schema)
    except (PydanticUserError, SchemaError) as error:
        reason = str(error).split("\n", 1)[0]
        raise TypeError(f"tool {tool_name}: its parameters cannot be described as JSON Schema: {reason}") from error
    schema.setdefault("properties", {})
    tidy: dict[str, Any] = _without_titles(schema)
    return model, tidy


def _field(parameter: _Parameter, description: str) -> tuple[Any, Any]:
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


def _explain(error: ValidationError, names: list[str]) -> Misfits:
    errors = error.errors(include_url=False)
    return Misfits([_complaint(each, names) for each in errors[:MOST]], len(errors[MOST:]))


def _complaint(error: ErrorDetails, names: list[str]) -> Complaint:
    path = error["loc"]
    if error["type"] == "missing":
        return Complaint(path=path, expected="is required")
    if error["type"] == "extra_forbidden":
        return Complaint(path=path, expected=not_a_parameter(names, inside=len(path) > 1))
    return Complaint(path=path, expected=error["msg"], given=error["input"])
