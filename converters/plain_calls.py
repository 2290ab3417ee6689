"""Tool calls that a client sends back, as both wires have them: `{id, type, function: {name, arguments}}`."""

from agent_core.messages import ToolCall

_CALL = {"id", "type", "function"}
_FUNCTION = {"name", "arguments"}


def plain_calls(given: object, most: int) -> tuple[ToolCall, ...] | None:
    """The calls, if each has just those members, and they are texts that say something. Null is no calls.

    None for anything else, also for more than `most` calls: whoever asks then reads them with care, and finds what is
    wrong with them.
    """
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > most:
        return None
    calls: list[ToolCall] = []
    for each in given:
        if not isinstance(each, dict) or each.keys() != _CALL or each["type"] != "function":
            return None
        call_id, function = each["id"], each["function"]
        if not isinstance(function, dict) or function.keys() != _FUNCTION:
            return None
        name, arguments = function["name"], function["arguments"]
        if not (isinstance(call_id, str) and isinstance(name, str) and isinstance(arguments, str) and call_id and name):
            return None
        # A client that has got no arguments sends the call back with an empty text.
        calls.append(ToolCall(id=call_id, name=name, arguments=arguments or "{}"))
    return tuple(calls)
