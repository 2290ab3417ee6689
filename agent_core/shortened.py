"""Texts that were too long to be shown whole: the notes in them, and how one is known again when it comes back.

A client replays what it was shown. A message that it was shown in part is the stored one, and no edit of it.
"""

import re

from agent_core.messages import Message, Part, TextPart

_NOTE = re.compile(r"\n\[cut here: (\d{1,12}) of (\d{1,12}) characters are shown\]\Z")


def beginning_of(text: str, kept: int) -> str:
    """The first `kept` characters of the text, and a note of what was cut."""
    return f"{text[:kept]}\n[cut here: {kept} of {len(text)} characters are shown]"


def note_of(kind: str, size: int) -> str:
    """What stands in the place of a part (an image, say) of so many characters that is too large to be shown."""
    return f"[{kind} of {size} characters, not shown here]"


def shows(sent: Message, stored: Message) -> bool:
    """Whether a client that sends the one has been shown the other: the same text and parts, whole or shortened."""
    if sent.content == stored.content:
        return True
    theirs, ours = _parts(sent), _parts(stored)
    return len(theirs) == len(ours) and all(map(_same, theirs, ours))


def _parts(message: Message) -> tuple[Part, ...]:
    content = message.content
    if isinstance(content, str):
        return (TextPart(text=content),) if content else ()
    return content


def _same(sent: Part, stored: Part) -> bool:
    if isinstance(stored, TextPart):
        return isinstance(sent, TextPart) and (sent.text == stored.text or _begins(sent.text, stored.text))
    if isinstance(sent, TextPart):
        return sent.text == note_of(stored.kind, len(stored.value))
    # What else was said of it is not shown to every client: the detail of an image, a type that was left out, and to
    # one of before AG-UI 1.0 no kind.
    return (sent.source, sent.value) == (stored.source, stored.value)


def _begins(sent: str, stored: str) -> bool:
    found = _NOTE.search(sent)
    if found is None:
        return False
    kept, whole = int(found[1]), int(found[2])
    return whole == len(stored) and found.start() == kept and sent[:kept] == stored[:kept]
