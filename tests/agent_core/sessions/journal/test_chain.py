from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from agent_core.sessions.journal.chain import Journal

JOURNAL = Journal(b"k" * 32)
TIP = b"t" * 32
ENTRY = Entry(seq=3, lane="root", run_id="r1", kind="message", body=b'{"a":1}')
KEY = SessionKey(user_id="ann", session_id="s1")


def test_a_seal_is_of_every_part_of_the_entry() -> None:
    others = [
        replace(ENTRY, seq=4),
        replace(ENTRY, lane="root2"),
        replace(ENTRY, run_id="r2"),
        replace(ENTRY, kind="state"),
        replace(ENTRY, body=b'{"a":2}'),
    ]
    seals = {JOURNAL.seal(TIP, each) for each in (ENTRY, *others)} | {JOURNAL.seal(b"u" * 32, ENTRY)}
    assert len(seals) == 7
    assert all(len(each) == 32 for each in seals)


def test_a_seal_never_changes_between_versions() -> None:
    """Journals that were written are checked by later code."""
    assert JOURNAL.genesis(7, KEY).hex() == GENESIS
    assert JOURNAL.seal(TIP, ENTRY).hex() == SEAL
    assert JOURNAL.tombstone(7, 3, TIP, 1_700_000_000_000).hex() == TOMBSTONE
    assert JOURNAL.fingerprint == FINGERPRINT


GENESIS = "49491dd7402fc3d0f4b353f795784f55e2db1c296ca5c968be71e155d979d15f"
SEAL = "8846974d063b5187f97e95248d55f58e2b5188226e60a0ba43b0bde14f987d8b"
TOMBSTONE = "ad16658722c1fa8495a3f2666a22a408167f6a1fb246c49e573a2d8bdd5d2cfe"
FINGERPRINT = "260fd96644ea909f"

words = st.text(st.characters(codec="utf-8"), max_size=3)
entries = st.builds(Entry, seq=st.integers(0, 300), lane=words, run_id=words, kind=words, body=st.binary(max_size=3))


@given(entries, entries)
def test_two_entries_have_the_same_seal_only_where_they_are_the_same(one: Entry, other: Entry) -> None:
    assert (JOURNAL.seal(TIP, one) == JOURNAL.seal(TIP, other)) == (one == other)


@given(st.tuples(st.integers(0, 9), words, words), st.tuples(st.integers(0, 9), words, words))
def test_two_sessions_begin_alike_only_where_they_are_the_same(
    one: tuple[int, str, str], other: tuple[int, str, str]
) -> None:
    first, second = (
        JOURNAL.genesis(row, SessionKey(user_id=user, session_id=name)) for row, user, name in (one, other)
    )
    assert (first == second) == (one == other)


def test_another_key_makes_other_seals_and_another_fingerprint() -> None:
    other = Journal(b"l" * 32)
    assert other.fingerprint != JOURNAL.fingerprint
    assert other.genesis(1, KEY) != JOURNAL.genesis(1, KEY)
    assert other.seal(TIP, ENTRY) != JOURNAL.seal(TIP, ENTRY)
    assert other.tombstone(1, 2, TIP, 3) != JOURNAL.tombstone(1, 2, TIP, 3)


def test_a_tombstone_is_of_every_part_of_the_deletion() -> None:
    made = {
        JOURNAL.tombstone(*each)
        for each in [(1, 2, TIP, 3), (2, 2, TIP, 3), (1, 3, TIP, 3), (1, 2, b"u" * 32, 3), (1, 2, TIP, 4)]
    }
    assert len(made) == 5
