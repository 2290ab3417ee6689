"""The pairing rule, on histories that obey it and on histories that do not."""

from hypothesis import given
from hypothesis import strategies as st

from agent_core.messages import MediaPart, Message, TextPart, ToolCall
from agent_core.pairing import open_calls, paired, result_of


def asks(*ids: str) -> Message:
    return Message(id=f"m-{'-'.join(ids)}", role="assistant", tool_calls=tuple(ToolCall(id=i, name="t") for i in ids))


def result(call_id: str, text: str = "r") -> Message:
    return Message(id=f"r-{call_id}-{text}", role="tool", tool_call_id=call_id, content=text)


def user(text: str) -> Message:
    return Message(id=f"u-{text}", role="user", content=text)


def test_open_calls_are_those_of_the_last_asking_message_in_its_order() -> None:
    history = [user("a"), asks("1"), result("1"), asks("2", "3", "4"), result("3")]
    assert [call.id for call in open_calls(history)] == ["2", "4"]
    assert open_calls([user("a"), asks("1"), result("1")]) == ()
    assert open_calls([]) == ()


def test_results_are_put_in_the_order_of_the_calls_and_before_what_the_user_said() -> None:
    view = paired([asks("1", "2"), user("hurry"), result("2"), result("1")])
    assert [message.id for message in view] == ["m-1-2", "r-1-r", "r-2-r", "u-hurry"]


def test_a_missing_result_becomes_interrupted_and_is_the_same_each_time() -> None:
    history = [asks("1"), user("go on")]
    view = paired(history)
    assert [message.role for message in view] == ["assistant", "tool", "user"]
    assert view[1].status == "interrupted"
    assert paired(history) == view


def test_a_result_that_arrived_is_never_replaced_and_a_second_one_is_left_out() -> None:
    view = paired([asks("1"), result("1", "first"), result("1", "second")])
    assert [message.text for message in view] == ["", "first"]


def test_a_result_without_its_call_is_left_out() -> None:
    assert paired([user("a"), result("9")]) == [user("a")]


def test_each_status_is_put_in_words() -> None:
    call = ToolCall(id="1", name="t")
    for status in ("error", "timed_out", "interrupted", "denied", "not_run"):
        assert result_of(call, status).text


def test_a_status_is_put_in_words_in_front_of_media_too() -> None:
    picture = MediaPart(kind="image", source="url", value="u")
    assert result_of(ToolCall(id="1", name="t"), "error", (picture,)).content == (TextPart(text="Error:"), picture)
    assert result_of(ToolCall(id="1", name="t"), "ok", (picture,)).content == (picture,)


@given(
    st.lists(
        st.one_of(
            st.builds(user, st.text(max_size=3)),
            st.lists(st.sampled_from("123456"), min_size=1, max_size=3, unique=True).map(lambda ids: asks(*ids)),
            st.sampled_from("123456").map(result),
        ),
        max_size=12,
    )
)
def test_every_view_is_paired_whatever_the_history_holds(history: list[Message]) -> None:
    view = paired(history)
    at = 0
    while at < len(view):
        message = view[at]
        assert message.role != "tool"
        at += 1
        for call in message.tool_calls:
            assert view[at].role == "tool"
            assert view[at].tool_call_id == call.id
            at += 1
    assert [m for m in view if m.role != "tool"] == [m for m in history if m.role != "tool"]
