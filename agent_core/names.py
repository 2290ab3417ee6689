"""What may be called what, where others choose the name."""

import re
import unicodedata

SESSION_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
RUN_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")

LONGEST_TITLE = 200
"""Characters of a session's title."""

_BREAKING = frozenset({"Cc", "Cs", "Zl", "Zp"})


def is_plain(text: str) -> bool:
    """Whether the text is one line without control characters and lone surrogates."""
    return not any(unicodedata.category(character) in _BREAKING for character in text)


def is_title(text: str) -> bool:
    """Whether a session may have this title: 1 to LONGEST_TITLE characters in one line, none of them at
    its ends blank."""
    return 0 < len(text) <= LONGEST_TITLE and text == text.strip() and is_plain(text)
