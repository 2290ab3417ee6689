"""What every store promises of its records; each store that exists is held to it."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from operator import methodcaller
from pathlib import Path

import pytest
from sqlalchemy import text

from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.records import BESIDE, InMemoryRecords, Record, Records
from agent_core.sessions.sql.records import SqlRecords
from agent_core.sessions.sql.store import SqlStore
from agent_core.sessions.sql.work import Work
from agent_core.sessions.storage import open_store
from agent_core.sessions.store import Store
from tests.agent_core.sessions.stores import die, fails, fill, key, opened, take
from tests.postgres import fresh_database

DAY = 86_400.0


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with opened(request.param, tmp_path) as made:
        await made.renew("w1")
        await made.renew("w2")
        yield made


@pytest.fixture
async def records(store: Store) -> Records:
    return store.records


def small(store: Store, *, of_user: int, in_all: int) -> Records:
    """The store's records, with room for so many values of 1 000 bytes."""
    most_of_user, most = of_user * (BESIDE + 1_000), in_all * (BESIDE + 1_000)
    if isinstance(store, InMemoryStore):
        return InMemoryRecords(most_of_user=most_of_user, most=most)
    assert isinstance(store, SqlStore)
    return SqlRecords(store._backend, store._journal, most_of_user=most_of_user, most=most)


async def names(records: Records, user_id: str = "u", most: int = 20) -> list[str]:
    return sorted(await records.recall(user_id, [f"n{number}" for number in range(most)]))


async def test_what_is_kept_comes_back_as_it_was_under_its_user_and_name_only(records: Records) -> None:
    value = bytes(range(256)) * 4_000
    assert await records.keep("u", "n", value, seconds=DAY)
    await records.keep("u", "other", b"", seconds=DAY)
    found = await records.recall("u", ["n", "nothing", "other"])
    assert found == {"n": Record(value=value), "other": Record(value=b"")}
    assert await records.recall("v", ["n"]) == {}
    assert await records.recall("u", []) == {}


async def test_what_is_kept_anew_takes_the_place_of_what_was_there(records: Records) -> None:
    await records.keep("u", "n", b"one", seconds=DAY, owner="w1")
    await records.keep("u", "n", b"two", seconds=DAY)
    assert await records.recall("u", ["n"]) == {"n": Record(value=b"two")}


async def test_the_first_claim_wins_and_the_others_are_told_who_has_it(records: Records) -> None:
    assert await records.claim("u", "n", b"one", owner="w1", seconds=DAY) is None
    assert await records.claim("u", "n", b"two", owner="w2", seconds=DAY) == Record(value=b"one", owner="w1")
    assert await records.claim("v", "n", b"three", owner="w2", seconds=DAY) is None
    assert await records.recall("u", ["n"]) == {"n": Record(value=b"one", owner="w1")}


async def test_of_claims_at_the_same_time_just_one_wins(records: Records) -> None:
    claims = [records.claim("u", "n", str(n).encode(), owner="w1", seconds=DAY) for n in range(8)]
    answers = await asyncio.gather(*claims)
    [winner] = [n for n, answer in enumerate(answers) if answer is None]
    assert {answer.value for answer in answers if answer is not None} == {str(winner).encode()}


async def test_a_claim_takes_the_place_of_just_the_value_that_it_names(records: Records) -> None:
    await records.claim("u", "n", b"one", owner="w1", seconds=DAY)
    takers = [records.claim("u", "n", new, owner="w2", seconds=DAY, instead=b"one") for new in (b"a", b"b")]
    answers = await asyncio.gather(*takers)
    assert answers.count(None) == 1
    [other] = [answer for answer in answers if answer is not None]
    assert other.value in (b"a", b"b")


async def test_an_owner_keeps_what_it_holds_and_nobody_keeps_what_another_has_taken(records: Records) -> None:
    await records.claim("u", "n", b"one", owner="w1", seconds=DAY)
    assert await records.keep("u", "n", b"acted", seconds=DAY, held_by="w1", owner="w1")
    await records.claim("u", "n", b"two", owner="w2", seconds=DAY, instead=b"acted")
    assert not await records.keep("u", "n", b"late", seconds=DAY, held_by="w1")
    await records.discard("u", "n", held_by="w1")
    assert await records.recall("u", ["n"]) == {"n": Record(value=b"two", owner="w2")}
    assert await records.keep("u", "n", b"done", seconds=DAY, held_by="w2")
    assert await records.recall("u", ["n"]) == {"n": Record(value=b"done")}
    assert not await records.keep("u", "nothing", b"x", seconds=DAY, held_by="w1")


async def test_what_is_discarded_is_gone_and_its_name_is_free(records: Records) -> None:
    await records.keep("u", "n", b"one", seconds=DAY)
    await records.discard("u", "n")
    await records.discard("u", "n")
    assert await records.recall("u", ["n"]) == {}
    assert await records.claim("u", "n", b"two", owner="w1", seconds=DAY) is None


async def test_what_is_over_its_time_counts_as_nothing_and_is_removed(records: Records) -> None:
    await records.keep("u", "old", b"one", seconds=-1)
    await records.keep("u", "n", b"two", seconds=DAY)
    await records.keep("u", "held", b"three", seconds=-1, owner="w1")
    assert list(await records.recall("u", ["old", "n", "held"])) == ["n"]
    assert not await records.keep("u", "held", b"four", seconds=DAY, held_by="w1")
    assert await records.expire() == 2
    assert await records.expire() == 0
    await records.keep("u", "old", b"one", seconds=-1)
    assert await records.claim("u", "old", b"new", owner="w1", seconds=DAY) is None


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record is written in a millisecond of its own: those of one have no order."""
    clock = count(1_000)
    monkeypatch.setattr("agent_core.sessions.sql.records.now_ms", lambda: next(clock))


@pytest.mark.usefixtures("ticking")
async def test_a_user_s_records_have_a_bound_in_bytes_and_the_oldest_go_first(store: Store) -> None:
    records = small(store, of_user=3, in_all=100)
    await records.keep("v", "n0", b"x" * 1_000, seconds=DAY)
    for number in range(6):
        await records.keep("u", f"n{number}", b"x" * 1_000, seconds=DAY)
    assert await names(records) == ["n3", "n4", "n5"]
    assert await names(records, "v") == ["n0"]
    await records.keep("u", "n9", b"x" * 2_500, seconds=DAY)
    assert await names(records) == ["n5", "n9"]


@pytest.mark.usefixtures("ticking")
async def test_all_records_together_have_a_bound_too_and_what_is_worked_on_stays(store: Store) -> None:
    records = small(store, of_user=100, in_all=4)
    for number in range(8):
        await records.keep(f"u{number}", "n0", b"x" * 1_000, seconds=DAY, owner="w1" if number == 0 else None)
    left = [number for number in range(8) if await names(records, f"u{number}")]
    assert left in ([0, 4, 5, 6, 7], [0, 5, 6, 7])


async def test_the_records_of_a_session_go_with_it(store: Store) -> None:
    await fill(store, key("s1"))
    for name, session_id, user in (("a", "s1", "u"), ("b", "s2", "u"), ("c", "", "u"), ("d", "s1", "v")):
        await store.records.keep(user, name, b"x", seconds=DAY, session_id=session_id)
    await store.delete(await take(store, key("s1")))
    assert list(await store.records.recall("u", ["a", "b", "c"])) == ["b", "c"]
    assert list(await store.records.recall("v", ["d"])) == ["d"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_owner_that_is_not_alive_works_on_nothing(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        assert isinstance(store, SqlStore)
        await store.renew("w1")
        await store.records.claim("u", "n", b"one", owner="w1", seconds=DAY)
        await die(store, "w1")
        assert await store.records.recall("u", ["n"]) == {"n": Record(value=b"one")}
        assert await store.records.claim("u", "n", b"two", owner="w2", seconds=DAY) == Record(value=b"one")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_record_that_somebody_else_has_written_counts_as_nothing(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        assert isinstance(store, SqlStore)
        for user, name in (("u", "a"), ("u", "b"), ("v", "a")):
            await store.records.keep(user, name, f"{user}{name}".encode(), seconds=DAY)
        changes = (
            "UPDATE records SET value = (SELECT value FROM records WHERE user_id = 'v') WHERE name = 'b'",
            "UPDATE records SET mac = (SELECT mac FROM records WHERE user_id = 'v') WHERE name = 'b'",
        )
        for change in changes:
            await store._backend.run(Work(do=methodcaller("execute", text(change))))
            assert list(await store.records.recall("u", ["a", "b"])) == ["a"]
        assert await store.records.claim("u", "b", b"new", owner="w", seconds=DAY) is None
        assert (await store.records.recall("u", ["b"]))["b"].value == b"new"


async def test_two_servers_share_them(tmp_path: Path) -> None:
    with fresh_database() as url:
        one = await open_store(url, tmp_path / "one", lease_seconds=30, journal_key="k" * 64)
        two = await open_store(url, tmp_path / "two", lease_seconds=30, journal_key="k" * 64)
        await one.renew("w1")
        answers = await asyncio.gather(
            *(each.records.claim("u", "n", b"%d" % n, owner="w1", seconds=DAY) for n, each in enumerate((one, two) * 4))
        )
        assert answers.count(None) == 1
        await one.aclose()
        await two.aclose()


async def test_they_are_there_again_after_a_restart_and_leave_nothing_in_the_file_when_they_go(tmp_path: Path) -> None:
    store = await open_store("sqlite", tmp_path, lease_seconds=30)
    await store.records.keep("u", "n", b"a secret of ann's", seconds=DAY)
    await store.records.keep("u", "gone", b"another secret", seconds=-1)
    await store.aclose()
    store = await open_store("sqlite", tmp_path, lease_seconds=30)
    assert (await store.records.recall("u", ["n"]))["n"].value == b"a secret of ann's"
    await store.records.expire()
    files = _all_files(tmp_path)
    assert b"a secret of ann's" in files
    assert b"another secret" not in files
    await store.aclose()


async def test_a_store_that_is_closed_says_so(tmp_path: Path) -> None:
    store = await open_store("sqlite", tmp_path, lease_seconds=30)
    await store.aclose()
    for asked in (
        store.records.claim("u", "n", b"", owner="w", seconds=DAY),
        store.records.keep("u", "n", b"", seconds=DAY),
        store.records.recall("u", ["n"]),
        store.records.discard("u", "n"),
        store.records.expire(),
    ):
        assert await fails(asked) == "the store is closed"


def _all_files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())
