"""What sessions, runs and titles may be called, and the full name of a session."""

import re
import unicodedata

import msgspec

SESSION_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
RUN_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")

LONGEST_TITLE = 200
"""Characters of a session's title."""

_JOINED = re.compile(r"(?<=[^\s\u200c\u200d])[\u200c\u200d](?=[^\s\u200c\u200d])")
"""A joiner, or non-joiner, between two characters: emoji and several scripts are written with them."""

_BREAKING = frozenset({"Cc", "Cs", "Zl", "Zp"})


class SessionKey(msgspec.Struct, frozen=True, kw_only=True, gc=False, cache_hash=True):
    """Whose session, and which. The user is the credential's, never the client's word."""

    user_id: str
    session_id: str


def is_plain(text: str) -> bool:
    """Whether the text is one line without control characters and lone surrogates."""
    return not any(unicodedata.category(character) in _BREAKING for character in text)


def is_title(text: str) -> bool:
    """Whether a session may have this title: one line of 1 to LONGEST_TITLE characters, without blank ends.

    Invisible characters are refused, those that change the direction included, but for joiners within words. Not by
    `isprintable`: to it a wide space, and an emoji newer than this Python, are unprintable.
    """
    if not 0 < len(text) <= LONGEST_TITLE or text != text.strip() or not is_plain(text):
        return False
    return not any(unicodedata.category(each) == "Cf" for each in _JOINED.sub("", text))
