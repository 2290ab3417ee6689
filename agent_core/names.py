"""The names that sessions, runs and titles may have, and the full name of a session."""

import re
import unicodedata

import msgspec

SESSION_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
RUN_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")

LONGEST_TITLE = 200
"""Characters of a session's title."""

_JOINED = re.compile(r"(?<=[^\s\u200c\u200d])[\u200c\u200d](?=[^\s\u200c\u200d])")
"""A joiner or non-joiner between two characters. Emoji and several scripts need them."""

_BREAKING = frozenset({"Cc", "Cs", "Zl", "Zp"})


class SessionKey(msgspec.Struct, frozen=True, kw_only=True, gc=False, cache_hash=True):
    """The full name of a session. The user comes from the credential, never from what the client says."""

    user_id: str
    session_id: str


def is_plain(text: str) -> bool:
    """Whether the text is one line without control characters and lone surrogates."""
    return not any(unicodedata.category(character) in _BREAKING for character in text)


def is_title(text: str) -> bool:
    """Whether a session may have this title: one line of 1 to LONGEST_TITLE characters, without blanks at its ends.

    Invisible characters are refused, also those that change the direction of text; joiners within words are allowed.
    `isprintable` would not do: it refuses a wide space, and each emoji that is newer than this Python.
    """
    if not 0 < len(text) <= LONGEST_TITLE or text != text.strip() or not is_plain(text):
        return False
    return not any(unicodedata.category(each) == "Cf" for each in _JOINED.sub("", text))
