"""Where instructions that a client sends again meet those that the history ends on."""

from itertools import product

from agent_core.react.opening.request import _overlap


def _by_trying(texts: str, stored: str) -> int:
    return max(n for n in range(len(texts) + 1) if stored.endswith(texts[:n]))


def test_the_overlap_is_what_trying_each_length_finds() -> None:
    for size in range(1, 5):
        for texts in product("ab", repeat=size):
            for length in range(8):
                for stored in product("abc", repeat=length):
                    one, other = "".join(texts), "".join(stored)
                    assert _overlap(texts, stored) == _by_trying(one, other), (one, other)
