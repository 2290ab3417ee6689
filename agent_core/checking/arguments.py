"""Checks the arguments of a call before anything runs: they must be JSON, an object, and fit the tool's schema.

Both sides are foreign data: a model writes the arguments, and a client brings the schema of its own tool. So both are
bounded, and nothing is ever fetched. Arguments that would cost too much are not checked against the schema; the tool's
own checks still count.

The validator holds the interpreter while it works, in a thread too. So each of its calls is bounded in work.
"""

import json
import logging
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import Any

import orjson

from agent_core.checking.costs import DEEPEST, Cost, Unusable
from agent_core.checking.misfits import misfits_in
from agent_core.checking.schemas import safe_copy
from agent_core.messages import ToolCall, well_formed
from agent_core.tools.base import ToolSpec
from agent_core.tools.complaints import Complaint, Misfits, tell

logger = logging.getLogger(__name__)

ECHO = 800
"""Characters of broken arguments that the model is shown again."""

MOST_SCHEMAS, LARGEST_CACHE = 1000, 100_000
"""Compiled schemas that are kept at most, and the sum of their sizes (`SafeCopy.size`)."""

LARGEST_SCHEMA = 128 * 1024
"""Bytes of a schema's JSON at most."""

MOST_VALUES = 50_000
"""Values that the arguments of one call may have."""

LARGEST_CHECK, LARGEST_SEARCH = 2_000_000, 5_000
"""The cost at most of one check (about 50 ms), and of the search for all errors. The search is dearer: it makes an
object of each error (about 10 µs) and of the path to it (as much for each 60 steps)."""

LARGEST_PATTERN = 32 * 1024
"""Bytes of a compiled pattern at most. With so many, matching takes up to 0.4 µs for each byte of the text."""

LARGEST_MATCH = 128 * 1024
"""Characters of the arguments, times the patterns and formats of the schema. Beyond this, patterns and formats are not
checked."""

COMPILING, CHECKING, REFERENCE = 50, 10, 5_000
"""Weights for `Aside`: of compiling one byte of a schema, and of checking one character of arguments. A reference or a
pattern counts for REFERENCE bytes."""

_LONG_NUMBER = re.compile(r"[0-9]{19}")

# The closing quote is optional and nothing is tried twice, so the time is linear for any text.
_STRINGS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


class Validators:
    """Compiled schemas, kept by their JSON text. The least recently used go first. All runs share one instance."""

    __slots__ = ("_kept", "_lock", "_size")

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, _Validator | None] = OrderedDict()
        self._size = 0
        self._lock = Lock()  # schemas are compiled in threads too

    def find(self, spec: ToolSpec) -> "_Validator | None":
        """The validator of the tool's schema. None if the schema cannot be used, which is logged."""
        text = _text_of(spec.parameters)
        key = _key_of(text)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        validator = _compile(spec, text)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = validator
                self._size += _size_of(validator)
            while len(self._kept) > MOST_SCHEMAS or (self._size > LARGEST_CACHE and len(self._kept) > 1):
                self._size -= _size_of(self._kept.popitem(last=False)[1])
        return validator

    def weight(self, spec: ToolSpec) -> int:
        """The work to compile the tool's schema, as a weight for `Aside`. 0 if it is kept."""
        text = _text_of(spec.parameters)
        if _key_of(text) in self._kept:
            return 0
        return COMPILING * (len(text) + REFERENCE * text.count(b'"$ref"') + REFERENCE * text.count(b'"pattern'))


def weight_of(call: ToolCall, spec: ToolSpec, validators: Validators) -> int:
    """The work to check the call's arguments, as a weight for `Aside`."""
    return CHECKING * len(call.arguments) + validators.weight(spec)


def checked(call: ToolCall, spec: ToolSpec, validators: Validators) -> tuple[dict[str, Any] | None, str]:
    """The call's arguments as an object that fits the tool's schema; or None, and a text for the model.

    An empty text and null count as an object without members, so they are wrong if a parameter is required.
    """
    text = call.arguments
    given = text.strip() not in ("", "null")
    if _too_many(text):
        return None, f"The arguments have more than {MOST_VALUES} values, so nothing was run."
    arguments, why = _parse(text) if given else ({}, "")
    if arguments is None:
        shown = text if len(text) <= ECHO else f"{text[:ECHO]}…"
        return None, well_formed(
            f"The arguments are not a JSON object, so nothing was run: {why}. They were: {shown or '(an empty text)'}"
        )
    validator = validators.find(spec)
    if validator is not None:
        misfits = validator.check(arguments, text, spec)
        wrong = "" if misfits is None else str(misfits)
    else:
        wrong = "" if given else _without_schema(spec.parameters)
    return (None, wrong) if wrong else (arguments, "")


def misfits_of(arguments: dict[str, Any], text: str, spec: ToolSpec, validators: Validators) -> Misfits | None:
    """The misfits of the arguments with the tool's schema, or None if no misfit is known. `text` is their JSON."""
    if _too_many(text):
        return Misfits([Complaint(path=(), expected=f"has more than {MOST_VALUES} values")])
    validator = validators.find(spec)
    return None if validator is None else validator.check(arguments, text, spec)


def _parse(text: str) -> tuple[dict[str, Any] | None, str]:
    try:
        value = orjson.loads(text)
        if _LONG_NUMBER.search(text):  # orjson makes a float of an integer over 64 bits, and loses digits
            value = json.loads(text)
    except (ValueError, RecursionError) as error:
        at = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        return None, f"{error.msg if isinstance(error, json.JSONDecodeError) else 'it cannot be read'}{at}"
    if not isinstance(value, dict):
        kinds = {list: "an array", str: "a text", bool: "true or false"}
        return None, f"it is {kinds.get(type(value), 'a number')}"
    return value, ""


def _without_schema(parameters: Mapping[str, Any]) -> str:
    required = parameters.get("required")
    names = [each for each in required if isinstance(each, str)] if isinstance(required, list | tuple) else []
    return tell([Complaint(path=(name,), expected="is required") for name in names]) if names else ""


@dataclass(frozen=True, slots=True)
class _Validator:
    """A compiled schema. `plain` is the same without patterns and formats, None if it has none."""

    compiled: Any
    plain: Any
    cost: Cost
    size: int

    def check(self, arguments: dict[str, Any], text: str, spec: ToolSpec) -> Misfits | None:
        """The misfits of the arguments, or None if no misfit is known. `text` is their JSON."""
        cost, frames = self.cost.of(arguments, len(text))
        if cost > LARGEST_CHECK:
            logger.debug("arguments of %d characters are too much for a schema of size %d", len(text), self.size)
            return None
        compiled = self.compiled if self.plain is None or self.cost.texts * len(text) <= LARGEST_MATCH else self.plain
        try:
            if compiled.is_valid(arguments):
                return None
        except Exception as error:  # too deep, or a number that the validator cannot take: that is no misfit
            logger.debug("arguments could not be checked (%s)", type(error).__name__)
            return None
        if max(cost, cost * frames // DEEPEST) > LARGEST_SEARCH:
            return Misfits()
        return misfits_in(compiled.iter_errors(arguments), arguments, spec)


def _compile(spec: ToolSpec, text: bytes) -> _Validator | None:
    try:
        if not text or len(text) > LARGEST_SCHEMA:
            raise Unusable
        copy = safe_copy(spec.parameters, _is_linear)
        if copy.cost.levels[0] > LARGEST_CHECK:
            raise Unusable
        plain = safe_copy(spec.parameters, lambda _key, _text: False) if copy.cost.texts else None
        return _Validator(
            compiled=_validator(copy.schema),
            plain=None if plain is None else _validator(plain.schema),
            cost=copy.cost,
            size=copy.size,
        )
    except Exception as error:  # the schema is the client's, and no error in it may end the run
        reason = type(error).__name__
        logger.debug("the schema of tool %s cannot be used (%s): its arguments are not checked", spec.name, reason)
        return None


def _is_linear(key: str, text: str) -> bool:
    """Whether the keyword takes linear time. Patterns do if the engine without backtracking accepts them: it refuses
    patterns with look-around or back references, too large ones, and wrong ones. All other keywords do."""
    if key != "pattern":
        return True
    try:
        _validator({"pattern": text})
    except Exception:
        return False
    return True


def _validator(schema: Mapping[str, Any]) -> Any:
    import jsonschema_rs  # imported late: it takes some 20 ms, and not every server has tools

    linear = jsonschema_rs.RegexOptions(size_limit=LARGEST_PATTERN, dfa_size_limit=LARGEST_PATTERN)
    return jsonschema_rs.validator_for(dict(schema), mask="the value", offline=True, pattern_options=linear)


def _key_of(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


def _text_of(parameters: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(parameters, default=dict)
    except TypeError:
        pass
    try:  # a number over 64 bits
        return json.dumps(parameters, default=dict).encode()
    except (TypeError, ValueError, RecursionError):
        return b""


def _size_of(validator: _Validator | None) -> int:
    return validator.size if validator is not None else 0


def _too_many(text: str) -> bool:
    """Whether the JSON text has more than MOST_VALUES values and names."""
    return _signs(text) > MOST_VALUES and _signs(_STRINGS.sub("", text)) > MOST_VALUES


def _signs(text: str) -> int:
    """The text's marks. A JSON text has at most one value more."""
    return sum(map(text.count, ",:[{"))
