"""The tokens of model calls, as the providers report them. Nothing here is estimated."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

COUNTS = ("input_tokens", "output_tokens", "total_tokens", "cached_input_tokens", "reasoning_tokens")


class Usage(Struct, frozen=True, kw_only=True, rename="camel"):
    """Token counts of one call, or of several calls of one model.

    A count is None if the provider did not report it, and then stays out of every sum. Cached tokens are a part of the
    input tokens, and reasoning tokens of the output tokens: they are not added to them.
    """

    provider: str
    model: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None


def add_up(usages: Iterable[Usage]) -> tuple[Usage, ...]:
    """The sums per provider and model, in the order in which the models were first used."""
    sums: dict[tuple[str, str], Usage] = {}
    for usage in usages:
        key = (usage.provider, usage.model)
        sums[key] = _sum(sums[key], usage) if key in sums else usage
    return tuple(sums.values())


def _sum(left: Usage, right: Usage) -> Usage:
    known = {}
    for count in COUNTS:
        values = [v for v in (getattr(left, count), getattr(right, count)) if v is not None]
        known[count] = sum(values) if values else None
    return replace(left, **known)
