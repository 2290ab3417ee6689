"""Ids of calls: one of our own holds the provider's."""

import pytest

from agent_core.messages import LONGEST_GIVEN, given_id, own_id


@pytest.mark.parametrize(
    "given",
    ["c1", "aB3xK9mP2", "functions.f:0", "a\nb", "x" * LONGEST_GIVEN, pytest.param(own_id("c1"), id="one of our own")],
)
def test_the_provider_s_id_is_found_in_one_of_our_own(given: str) -> None:
    made = own_id(given)
    assert given_id(made) == given
    assert own_id(given) != made


@pytest.mark.parametrize("given", ["", "x" * (LONGEST_GIVEN + 1)])
def test_an_id_that_is_none_or_too_long_is_in_none(given: str) -> None:
    assert given_id(own_id(given)) not in ("", given)


@pytest.mark.parametrize("other", ["c1", "", "c1__own_", "c1__own_0123456789aX", "__own_0123456789ab"])
def test_any_other_id_stays(other: str) -> None:
    assert given_id(other) == other
