"""The errors of a JSON Schema's validator, in words that help the model to correct its arguments."""

from collections.abc import Iterable, Sequence
from typing import Any

from agent_core.tools.base import ToolSpec
from agent_core.tools.complaints import LONGEST, MOST, Complaint, Misfits, not_a_parameter, path_of


def misfits_in(found: Iterable[Any], arguments: dict[str, Any], spec: ToolSpec) -> Misfits | None:
    """The errors of jsonschema-rs as misfits, or None if there are none. Errors at the top come before errors further
    in. The library has masked the values as `the value`."""
    errors = list(found)
    errors.sort(key=lambda error: (len(error.instance_path), error.kind.name != "required"))
    complaints = [each for error in errors[:MOST] for each in _complaints(error, arguments, spec)]
    return Misfits(complaints, len(errors[MOST:])) if errors else None


def _complaints(error: Any, arguments: dict[str, Any], spec: ToolSpec) -> list[Complaint]:
    path, kind = tuple(error.instance_path), error.kind
    match type(kind).__name__:
        case "Required":
            return [Complaint(path=(*path, kind.property), expected="is required")]
        case "AdditionalProperties" | "UnevaluatedProperties":
            known = () if path else tuple(spec.parameters.get("properties", ()))
            expected = not_a_parameter(known, inside=not known)
            return [Complaint(path=(*path, name), expected=expected) for name in kind.unexpected]
        case "FalseSchema" if error.schema_path[-1:] == ["additionalProperties"]:
            # This comes if the schema has no properties. The path ends at the object, which may have no members then.
            expected = not_a_parameter((), inside=bool(path))
            return [Complaint(path=(*path, name), expected=expected) for name in _at(arguments, path)]
        case "FalseSchema":
            return [Complaint(path=path, expected="must not be given")]
        case "AnyOf" | "OneOfNotValid":
            branches = [_expected(branch[0], path) for branch in kind.context[:MOST] if branch]
            expected = ", and ".join(dict.fromkeys(branches)) or "fits none of what it may be"
            return [Complaint(path=path, expected=expected, given=error.instance)]
    return [Complaint(path=path, expected=_expected(error, path), given=error.instance)]


def _expected(error: Any, path: tuple[Any, ...]) -> str:
    """The library's sentence without its subject. If the error is further in, the rest of the path stands in front."""
    said = str(error.message[: 2 * LONGEST]).removeprefix("the value ")
    inner = tuple(error.instance_path)[len(path) :]
    return f"{path_of(inner)} {said}" if inner else said


def _at(arguments: Any, path: Sequence[int | str]) -> Any:
    for step in path:
        arguments = arguments[step]
    return arguments
