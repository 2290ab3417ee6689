"""The cost of a run as OpenAI's usage object."""

from collections.abc import Sequence
from typing import Any

from agent_core.usage import Usage


def usage_of(usages: Sequence[Usage]) -> dict[str, Any]:
    """The sums over all models, in tokens.

    The three counts are always integers, because clients demand them: 0 if no provider reported one. A missing total
    counts as the sum of input and output. The details are there only if they are known.
    """
    prompt = sum(each.input_tokens or 0 for each in usages)
    completion = sum(each.output_tokens or 0 for each in usages)
    cached = [each.cached_input_tokens for each in usages if each.cached_input_tokens is not None]
    reasoning = [each.reasoning_tokens for each in usages if each.reasoning_tokens is not None]
    told: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": sum(map(_total, usages)),
    }
    if cached:
        told["prompt_tokens_details"] = {"cached_tokens": sum(cached)}
    if reasoning:
        told["completion_tokens_details"] = {"reasoning_tokens": sum(reasoning)}
    return told


def _total(usage: Usage) -> int:
    if usage.total_tokens is not None:
        return usage.total_tokens
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)
