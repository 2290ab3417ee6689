"""Texts that were shortened to be shown: the notes in them, and how such a text is known when it comes back.

A client sends back what it was shown. If it was shown a part of a message, that part is no edit of the message.
"""

import re

from agent_core.messages import Message, Part, TextPart

_NOTE = re.compile(r"\n\[cut here: (\d{1,12}) of (\d{1,12}) characters are shown\]\Z")


def beginning_of(text: str, kept: int) -> str:
    """The first `kept` characters of the text, and a note that says how much was cut."""
    return f"{text[:kept]}\n[cut here: {kept} of {len(text)} characters are shown]"


def note_of(kind: str, size: int) -> str:
    """The note in place of a part that is too large to be shown, such as an image. `size` is in characters."""
    return f"[{kind} of {size} characters, not shown here]"


def shows(sent: Message, stored: Message) -> bool:
    """Whether `sent` is what a client was shown of `stored`: the same text and parts, whole or shortened."""
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
    # Only these two are shown to every client. Some are not shown an image's detail or a type that was left out, and
    # clients from before AG-UI 1.0 are not shown the kind.
    return (sent.source, sent.value) == (stored.source, stored.value)


def _begins(sent: str, stored: str) -> bool:
    found = _NOTE.search(sent)
    if found is None:
        return False
    kept, whole = int(found[1]), int(found[2])
    return whole == len(stored) and found.start() == kept and sent[:kept] == stored[:kept]
