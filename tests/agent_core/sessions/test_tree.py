"""The tree of an agent's messages: the shown path, and hidden messages that come back with their results."""

import gc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_core.messages import Message, ToolCall
from agent_core.pairing import open_calls, paired
from agent_core.sessions.tree import RULES, Node, Tree, messages_of, open_calls_at


def user(message_id: str, content: str = "") -> Message:
    return Message(id=message_id, role="user", content=content or message_id)


def asks(message_id: str, *call_ids: str) -> Message:
    calls = tuple(ToolCall(id=each, name="t") for each in call_ids)
    return Message(id=message_id, role="assistant", tool_calls=calls)


def result(message_id: str, call_id: str) -> Message:
    return Message(id=message_id, role="tool", tool_call_id=call_id)


def tree(*messages: Message) -> Tree:
    made = Tree()
    for message in messages:
        made.add(message)
    return made


def ids(made: Tree) -> list[str]:
    assert made.message_ids == {message.id for message in made.messages}
    assert messages_of(made.nodes()) == made.messages
    return [message.id for message in made.messages]


def test_results_stand_in_the_order_of_the_calls_and_in_front_of_what_was_said_meanwhile() -> None:
    made = tree(user("u1"), asks("a1", "c1", "c2", "c3"), result("t3", "c3"), user("o1"), result("t1", "c1"))
    assert ids(made) == ["u1", "a1", "t1", "t3", "o1"]
    made.add(result("t2", "c2"))
    assert ids(made) == ["u1", "a1", "t1", "t2", "t3", "o1"]


def test_a_result_without_its_call_stands_where_it_came() -> None:
    made = tree(user("u1"), result("t", "nobody"), user("u2"))
    assert ids(made) == ["u1", "t", "u2"]


def test_a_rewind_to_a_message_keeps_the_results_of_its_calls() -> None:
    for after in ("a1", "t1", "t2"):
        made = tree(user("u1"), asks("a1", "c1", "c2"), result("t1", "c1"), result("t2", "c2"), user("u2"))
        made.rewind(after)
        assert ids(made) == ["u1", "a1", "t1", "t2"], after


def test_what_was_rewound_away_is_shown_again_as_it_stood() -> None:
    made = tree(user("u1"), asks("a1"), user("u2"), asks("a2"))
    made.rewind("a1")
    made.add(user("u3"))
    assert ids(made) == ["u1", "a1", "u3"]
    made.rewind("a2")
    assert ids(made) == ["u1", "a1", "u2", "a2"]
    made.rewind("u3")
    assert ids(made) == ["u1", "a1", "u3"]
    made.rewind("")
    assert ids(made) == []
    made.add(user("u4"))
    made.rewind("u2")
    assert ids(made) == ["u1", "a1", "u2"]


def test_an_id_that_nobody_knows_changes_nothing() -> None:
    made = tree(user("u1"), user("u2"))
    made.rewind("gone")
    assert ids(made) == ["u1", "u2"]


def test_of_two_versions_under_one_id_the_one_that_is_shown_counts() -> None:
    made = tree(user("u1", "old"), asks("a1"))
    made.rewind("")
    made.add(user("u1", "new"))
    made.add(asks("b1"))
    assert text_of(made, "u1") == "new"
    made.rewind("a1")
    assert (ids(made), text_of(made, "u1")) == (["u1", "a1"], "old")
    made.rewind("u1")
    assert ids(made) == ["u1"]


def text_of(made: Tree, message_id: str) -> str:
    node = made.find(message_id)
    assert node is not None
    return node.message.text


def test_a_result_that_comes_for_a_call_that_is_not_shown_is_there_when_it_is_shown_again() -> None:
    made = tree(user("u1"), asks("a1", "c1"))
    made.rewind("u1")
    made.add(asks("b1"))
    made.add(result("t1", "c1"))
    assert ids(made) == ["u1", "b1"]
    made.rewind("a1")
    assert ids(made) == ["u1", "a1", "t1"]


@given(st.lists(st.tuples(st.sampled_from(["say", "rewind"]), st.integers(0, 12)), max_size=40))
def test_any_sequence_of_messages_and_rewinds_shows_what_a_plain_copy_of_each_path_would(
    steps: list[tuple[str, int]],
) -> None:
    made, shown, paths = Tree(), list[str](), {"": list[str]()}
    for number, (step, which) in enumerate(steps):
        if step == "say":
            made.add(user(f"m{number}"))
            shown = [*shown, f"m{number}"]
            paths[f"m{number}"] = shown
        else:
            after = list(paths)[which % len(paths)]
            made.rewind(after)
            shown = paths[after]
        assert ids(made) == shown


def test_only_what_a_client_shows_is_a_question() -> None:
    seen = [
        Node(user("u"), None, "r", 1, False),
        Node(user("o"), None, "r", 1, True),
        Node(asks("a"), None, "r", 1, False),
    ]
    assert [node.asks for node in seen] == [True, False, False]


def test_a_result_belongs_to_the_call_that_is_shown_where_two_have_one_id() -> None:
    made = tree(user("u1"), asks("a1", "c1"), user("u2"), asks("a2", "c1"), result("t2", "c1"))
    made.rewind("a1")
    made.add(result("t1", "c1"))
    assert ids(made) == ["u1", "a1", "t1"]


def nodes_alive() -> int:
    return sum(isinstance(each, Node) for each in gc.get_objects())


def test_a_conversation_is_freed_at_once_and_not_left_to_the_garbage_collection() -> None:
    """Else each run would leave a whole history behind, and collecting a few long ones holds everybody up."""
    gc.collect()
    before = nodes_alive()
    gc.disable()
    try:
        made = tree(*(each for n in range(50_000) for each in (asks(f"a{n}", f"c{n}"), result(f"t{n}", f"c{n}"))))
        made.rewind("a7")
        made.add(user("u"))
        del made
        assert nodes_alive() == before
    finally:
        gc.enable()


def test_a_call_of_many_has_its_result_or_not() -> None:
    node = Node(asks("a", *(f"c{n}" for n in range(10))), None, "", 0, False)
    assert not node.has_result("c3")
    for call_id in ("c7", "c3", "c9"):
        node.take(result(f"t{call_id}", call_id))
    assert [node.has_result(f"c{n}") for n in range(11)] == [n in (3, 7, 9) for n in range(11)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from(["user", "assistant", "system"]), st.integers(0, 3)),
        st.tuples(st.just("ask"), st.lists(st.integers(0, 5), max_size=3), st.integers(0, 3)),
        st.tuples(st.just("answer"), st.integers(0, 6), st.booleans()),
        st.tuples(st.just("rewind"), st.integers(0, 20), st.booleans()),
    ),
    max_size=30,
)


@given(STEPS)
def test_what_is_found_from_the_end_of_the_path_is_what_a_walk_over_it_finds(steps: list[tuple[str, Any, Any]]) -> None:
    made = Tree()
    for number, (what, which, more) in enumerate(steps):
        if what == "say":
            made.add(Message(id=f"m{number}", role=which, content="x"), observed=more == 0)
        elif what == "ask":
            made.add(asks(f"m{number}", *(f"c{each}" for each in which)))
        elif what == "answer":
            made.add(result(f"m{number}", f"c{which}"))
        else:
            made.rewind("" if which == 0 else f"m{which}")
        path = made.nodes()
        assert made.open_calls == open_calls(made.messages)
        assert [*made.upward()] == path[::-1]
        assert [node.step for node in path] == [*range(len(path))]
        assert [node.asked for node in path] == [any(each.asks for each in path[: at + 1]) for at in range(len(path))]
        for at, node in enumerate(path):
            assert open_calls_at(node) == open_calls(messages_of(path[: at + 1]))
            assert [*node.rules()] == [each for each in path[at::-1] if each.message.role in RULES]
        if made.is_paired:
            assert paired(made.messages) == made.messages
        elif path:
            assert not all(node.is_paired for node in path)


def test_a_conversation_whose_calls_are_all_answered_is_paired() -> None:
    made = tree(user("u1"), asks("a1", "c1", "c2"))
    found = [made.is_paired]
    for message in (result("t1", "c1"), result("t2", "c2"), result("t3", "c2")):
        made.add(message)
        found.append(made.is_paired)
    made.rewind("u1")
    assert [*found, made.is_paired] == [False, False, True, False, True]
    assert not Tree().is_paired
