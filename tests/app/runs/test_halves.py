"""Sessions that wait for a client tool: found by their calls, by their own user, for an hour."""

from app.runs.halves import KEPT, MOST, Halves


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def made() -> tuple[Halves, list[tuple[str, str]], Clock]:
    forgotten: list[tuple[str, str]] = []
    clock = Clock()
    return Halves(lambda user, session: forgotten.append((user, session)), now=clock), forgotten, clock


def test_any_of_its_calls_finds_the_session_once() -> None:
    halves, _, _ = made()
    halves.keep("ann", "s", ["c1", "c2"])
    assert halves.take("ann", ["other", "c2"]) == "s"
    assert halves.take("ann", ["c1"]) is None
    assert len(halves) == 0


def test_another_user_finds_nothing() -> None:
    halves, _, _ = made()
    halves.keep("ann", "s", ["c1"])
    assert halves.take("bob", ["c1"]) is None
    assert halves.take("ann", ["c1"]) == "s"


def test_after_an_hour_it_is_given_up() -> None:
    halves, forgotten, clock = made()
    halves.keep("ann", "s", ["c1"])
    clock.now = KEPT
    assert halves.take("ann", ["c1"]) is None
    assert forgotten == [("ann", "s")]


def test_too_many_give_up_the_oldest() -> None:
    halves, forgotten, _ = made()
    for number in range(MOST + 2):
        halves.keep("ann", f"s{number}", [f"c{number}"])
    assert forgotten == [("ann", "s0"), ("ann", "s1")]
    assert halves.take("ann", ["c0"]) is None
    assert halves.take("ann", ["c2"]) == "s2"


def test_a_session_that_waits_again_is_kept_under_its_new_calls() -> None:
    halves, forgotten, _ = made()
    halves.keep("ann", "s", ["c1"])
    halves.keep("ann", "s", ["c2"])
    assert halves.take("ann", ["c1"]) is None
    assert halves.take("ann", ["c2"]) == "s"
    assert forgotten == []
