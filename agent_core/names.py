"""What may be called what, where others choose the name."""

import re
import unicodedata

SESSION_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
RUN_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")

LONGEST_TITLE = 200
"""Characters of a session's title."""

_JOINED = re.compile(r"(?<=[^\s\u200c\u200d])[\u200c\u200d](?=[^\s\u200c\u200d])")
"""A joiner, or non-joiner, between two characters: emoji and several scripts are written with them."""

_BREAKING = frozenset({"Cc", "Cs", "Zl", "Zp"})


def is_plain(text: str) -> bool:
    """Whether the text is one line without control characters and lone surrogates."""
    return not any(unicodedata.category(character) in _BREAKING for character in text)


def is_title(text: str) -> bool:
    """Whether a session may have this title: 1 to LONGEST_TITLE characters in one line, none of them at its
    ends blank, none that changes the direction of others, and none invisible but the joiners within words.

    Not `isprintable`, which takes a wide space and an emoji newer than this Python for unprintable.
    """
    if not 0 < len(text) <= LONGEST_TITLE or text != text.strip() or not is_plain(text):
        return False
    return not any(unicodedata.category(each) == "Cf" for each in _JOINED.sub("", text))
