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
from typing import Any, Generic, ParamSpec, TypeVar, overload

from pydantic import BaseModel, ValidationError

from agent_core.context import ToolContext
from agent_core.errors import ToolError
from agent_core.plain import BETTER, NoJson
from agent_core.tools.base import NAME_PATTERN, Result, ToolSpec
from agent_core.tools.complaints import Misfits
from agent_core.tools.docstrings import read_docstring
from agent_core.tools.results import NOTHING, result_from
from agent_core.tools.signature import describe, explain, field_name, read_signature

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


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
        self._signature = read_signature(name, function)
        description, described = read_docstring(inspect.getdoc(function) or "")
        self._model, schema = describe(name, self._signature, described)
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
            return explain(error, [each.name for each in self._signature if not each.is_context])

    def _bind(self, arguments: Mapping[str, Any], context: ToolContext) -> Callable[[], Any]:
        validated = self._validated(arguments)
        if isinstance(validated, Misfits):
            raise ToolError(str(validated))
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for index, parameter in enumerate(self._signature):
            value = context if parameter.is_context else getattr(validated, field_name(index))
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
