import pytest

from agent_core.models.base import TextPiece
from agent_core.models.think_filter import ThinkFilter

CASES = {
    "a block": ("<think>why</think>Hi", "why", "Hi"),
    "white space around it": ("\n <think>\n why so \n</think>\n\nHi there ", "why so", "Hi there "),
    "an empty block": ("<think>\n\n</think>\n\nHi", "", "Hi"),
    "no block": ("  Hi <think>no</think>", "", "  Hi <think>no</think>"),
    "a tag that only begins alike": ("<thing>1</thing>", "", "<thing>1</thing>"),
    "half a tag": ("<thin", "", "<thin"),
    "a block that is not closed": ("<think>why </thin", "why </thin", ""),
    "a lesser sign in it": ("<think>a < b</t</think>Hi", "a < b</t", "Hi"),
    "a second block": ("<think>a</think><think>b</think>", "a", "<think>b</think>"),
    "white space only": (" \n", "", " \n"),
    "nothing": ("", "", ""),
}


def read(*texts: str) -> tuple[str, str]:
    front = ThinkFilter()
    pieces = [piece for text in texts for piece in front.feed(text)] + front.finish()
    assert all(piece.text for piece in pieces)
    said = [isinstance(piece, TextPiece) for piece in pieces]
    assert said == sorted(said), "thinking after text"
    thought = "".join(piece.text for piece, is_text in zip(pieces, said, strict=True) if not is_text)
    return thought, "".join(piece.text for piece, is_text in zip(pieces, said, strict=True) if is_text)


@pytest.mark.parametrize("case", CASES)
def test_thinking_and_text_are_the_same_wherever_they_are_split(case: str) -> None:
    whole, thought, text = CASES[case]
    for first in range(len(whole) + 1):
        for second in range(first, len(whole) + 1):
            assert read(whole[:first], whole[first:second], whole[second:]) == (thought, text)
    assert read(*whole) == (thought, text)


def test_text_that_is_no_block_is_not_held_back() -> None:
    front = ThinkFilter()
    assert front.feed("Hi") == [TextPiece("Hi")]
    assert front.passed
