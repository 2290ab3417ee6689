"""Tool calls that a client sends back, as both wires have them: `{id, type, function: {name, arguments}}`."""

from agent_core.messages import ToolCall


def plain_calls(given: object, most: int) -> tuple[ToolCall, ...] | None:
    """The calls, if each has just those members, and they are texts that say something. Null is no calls.

    None for anything else, also for more than `most` calls: whoever asks then reads them with care, and finds what is
    wrong with them.
    """
    if given is None:
        return ()
    if type(given) is not list or len(given) > most:
        return None
    calls: list[ToolCall] = []
    for each in given:
        if type(each) is not dict or len(each) != 3 or each.get("type") != "function":
            return None
        call_id, function = each.get("id"), each.get("function")
        if type(function) is not dict or len(function) != 2:
            return None
        name, arguments = function.get("name"), function.get("arguments")
        if not (type(call_id) is str and type(name) is str and type(arguments) is str and call_id and name):
            return None
        # A client that has got no arguments sends the call back with an empty text.
        calls.append(ToolCall(id=call_id, name=name, arguments=arguments or "{}"))
    return tuple(calls)
