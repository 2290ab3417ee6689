"""Export and import: a session as lines of JSON.

The first line is a header, and each other line is an entry:

    {"ostinato":"session","version":1,"sessionId":"s1","title":"…","exportedAt":"2026-01-01T00:00:00.000Z"}
    {"seq":1,"lane":"root","runId":"r1","kind":"run","body":{…}}

Anybody may have written an imported file. So every line is checked, and none of its calls is ever run.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import orjson
from msgspec.structs import replace

from agent_core.clock import utc_now
from agent_core.errors import InvalidRequest
from agent_core.names import RUN_ID, is_plain
from agent_core.sessions.checks import LONGEST_CALL_ID, SoFar, Wrong
from agent_core.sessions.copies.fork import closing
from agent_core.sessions.entries import Entry, body_of, copied
from agent_core.sessions.history import take
from agent_core.sessions.kinds import KINDS, Body

VERSION: Final = 1

MOST_ENTRIES = 100_000
"""Entries of one import at most."""

DEEPEST = 200
"""Levels that objects and lists of a line may be nested at most."""

LARGEST_LINE, MOST_SIGNS = 16_000_000, 1_000_000
"""Bytes of one line at most, and brackets and commas in it at most. So reading a line takes only a moment."""

MOST_SWITCHED = 500_000
"""Messages that all rewinds together may hide or show again."""

_WHERE = re.compile(r"`\$([^`]*)`$")
_MISSING = re.compile(r"missing required field `(\w+)`")


class _Header(msgspec.Struct, kw_only=True, rename="camel"):
    ostinato: str = "session"
    version: int = VERSION
    session_id: str
    title: str
    exported_at: str


class _Line(msgspec.Struct, kw_only=True, rename="camel"):
    seq: int
    lane: str
    run_id: str
    kind: str
    body: msgspec.Raw


def export_lines(entries: Iterable[Entry], *, session_id: str, title: str) -> bytes:
    """The session as lines of JSON, each with its line feed."""
    encode = msgspec.json.Encoder().encode
    lines = [encode(_Header(session_id=session_id, title=title, exported_at=utc_now()))]
    lines += (
        encode(_Line(seq=each.seq, lane=each.lane, run_id=each.run_id, kind=each.kind, body=msgspec.Raw(each.body)))
        for each in entries
    )
    return b"\n".join(lines) + b"\n"


def import_entries(data: bytes) -> list[Entry]:
    """The entries of an exported session, marked as copied and closed. An open run gets an end, and an open call a
    result. No imported call is ever run.

    Raises only InvalidRequest, whatever the bytes are. Its message names the first wrong line.
    """
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if len(lines) - 1 > MOST_ENTRIES:
        raise InvalidRequest(f"At most {MOST_ENTRIES} entries can be imported, and there are {len(lines) - 1}.")
    so_far = SoFar()
    entries: list[Entry] = []
    number = 1
    try:
        _check_header(lines[0] if lines else b"")
        for number, line in enumerate(lines[1:], start=2):
            entries.append(_entry(_members(line), number - 1, so_far))
        if not entries:
            number = 2
            raise Wrong("is missing: there must be at least one entry.")
    except Wrong as wrong:
        raise InvalidRequest(f"line {number}: {wrong}", f"line {number}") from None
    entries += closing(so_far.standing, so_far.standing)
    return [replace(entry, seq=seq) for seq, entry in enumerate(entries, start=1)]


def _check_header(line: bytes) -> None:
    members = _members(line)
    if members.get("ostinato") != "session":
        raise Wrong('is not the head of an exported session: "ostinato" must be "session".')
    version = members.get("version")
    if isinstance(version, bool) or version != VERSION:
        raise Wrong(f"version must be {VERSION}.")


def _entry(members: dict[str, Any], seq: int, so_far: SoFar) -> Entry:
    given = members.get("seq")
    if isinstance(given, bool) or given != seq:
        raise Wrong(f"seq must be {seq}.")
    lane = members.get("lane")
    if not isinstance(lane, str) or not 0 < len(lane) <= LONGEST_CALL_ID or not is_plain(lane):
        raise Wrong('lane must be "root" or the id of a call.')
    run_id = members.get("runId")
    if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id):
        raise Wrong("runId must be 1 to 64 of A-Z a-z 0-9 . _ : -.")
    kind = next((each for each in KINDS if each == members.get("kind")), None)
    if kind is None:
        raise Wrong(f"kind must be one of {', '.join(KINDS)}.")
    entry = Entry(seq=seq, lane=lane, run_id=run_id, kind=kind, body=orjson.dumps(members.get("body")))
    so_far.standing.lane = lane
    body = _body(entry)
    body.check()
    body = body.fit(so_far)
    take(so_far.standing, entry, body)
    if so_far.standing.switched > MOST_SWITCHED:
        raise Wrong("the conversation goes back too often over too much for it to be read in time.")
    # The entry is encoded again, so that only the fields that we know are kept.
    return copied(entry, body)


def _body(entry: Entry) -> Body:
    try:
        return body_of(entry)
    except msgspec.MsgspecError as error:
        # Take only the path from the error's text, since the rest may quote the input.
        where, missing = _WHERE.search(str(error)), _MISSING.search(str(error))
        path = f"body{where[1] if where else ''}" + (f".{missing[1]}" if missing else "")
        raise Wrong(
            f"{path} {'is missing' if missing else 'is not what it must be'} in a {entry.kind} entry."
        ) from None


def _members(line: bytes) -> dict[str, Any]:
    if len(line) > LARGEST_LINE:
        raise Wrong(f"has {len(line)} bytes, but at most {LARGEST_LINE} are taken.")
    if len(line) > MOST_SIGNS and sum(map(line.count, b",[{")) > MOST_SIGNS:
        raise Wrong(f"has more than {MOST_SIGNS} brackets and commas.")
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise Wrong("is not JSON (in UTF-8, with finite numbers and whole characters).") from None
    if not isinstance(value, dict):
        raise Wrong("must be a JSON object.")
    if line.count(b"[") + line.count(b"{") > DEEPEST and _too_deep(value):
        raise Wrong(f"is nested more than {DEEPEST} levels deep.")
    return value


def _too_deep(value: object) -> bool:
    level: Sequence[object] = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return any(isinstance(each, dict | list) for each in level)
