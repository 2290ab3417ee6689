"""The options of a chat completion request, and those that are refused.

An option that cannot be fulfilled is refused by its name. Otherwise a client that asked for it would misread the
answer. Unknown members are ignored: they are hints, or another provider's options.
"""

from typing import Any

from agent_core.models.base import ModelOptions
from converters.fields import Members, flag_at, integer_at, list_at, number_at, refuse, text_at
from converters.parsing import step

MOST_STOPS = 4
MOST_TOKENS = 2**31 - 1
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_NOTHING: tuple[Any, ...] = (None, False, [], {})

_TAKEN: dict[str, tuple[tuple[Any, ...], str]] = {
    "n": ((None, 1), "one answer is given to a request; leave it out, or ask for 1."),
    "logprobs": (_NOTHING, "log probabilities are not available here."),
    "top_logprobs": ((None, 0), "log probabilities are not available here."),
    "logit_bias": (_NOTHING, "token biases are not available here."),
    "response_format": ((None, {"type": "text"}), "only the format 'text' is available here."),
    "modalities": ((None, ["text"]), "only the modality 'text' is available here."),
    "audio": ((None,), "spoken answers are not available here."),
    "web_search_options": ((None,), "web search is not available here; give the agent a tool for it."),
    "functions": (_NOTHING, "functions are not supported any more; use 'tools'."),
    "function_call": ((None,), "function_call is not supported any more; use 'tool_choice'."),
}
"""For each option that cannot be fulfilled: the values that ask for nothing, and the error for any other value."""


def refuse_the_impossible(members: Members) -> None:
    """Raises InvalidRequest for the first option that cannot be fulfilled."""
    for name, (harmless, why) in _TAKEN.items():
        value = members.get(name)
        # Compare the type too, because True equals 1 and False equals 0.
        if not any(type(value) is type(each) and value == each for each in harmless):
            raise refuse(name, why)
    asked = members.get("stream_options")
    if not members.get("stream") and isinstance(asked, dict) and any(asked.values()):
        raise refuse("stream_options", "is only for requests with 'stream': true.")


def options_of(members: Members) -> ModelOptions:
    """How the model must sample. Raises InvalidRequest for a value out of range.

    If both bounds of an answer's length are given, `max_completion_tokens` counts.
    """
    bound = integer_at(members, "max_tokens", 1, MOST_TOKENS)
    newer = integer_at(members, "max_completion_tokens", 1, MOST_TOKENS)
    effort = text_at(members, "reasoning_effort")
    if effort is not None and effort not in EFFORTS:
        raise refuse("reasoning_effort", f"must be one of {', '.join(EFFORTS)}.")
    return ModelOptions(
        temperature=number_at(members, "temperature", 0, 2),
        top_p=number_at(members, "top_p", 0, 1),
        max_tokens=bound if newer is None else newer,
        stop=_stops(members),
        seed=integer_at(members, "seed", -(2**63), 2**63 - 1),
        presence_penalty=number_at(members, "presence_penalty", -2, 2),
        frequency_penalty=number_at(members, "frequency_penalty", -2, 2),
        reasoning_effort=effort,
        parallel_tool_calls=flag_at(members, "parallel_tool_calls"),
    )


def _stops(members: Members) -> tuple[str, ...]:
    value = members.get("stop")
    if isinstance(value, str):
        return (value,) if value else ()
    stops = list_at(members, "stop", MOST_STOPS)
    for index, each in enumerate(stops):
        if not isinstance(each, str) or not each:
            raise refuse(step("stop", index), "must be a text that is not empty.")
    return tuple(stops)
