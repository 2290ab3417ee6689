"""What must hold, how it is tried, and the figure that shows it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.accept.figures import long_over_empty, longest_turn, seconds_to_first_answer, sqlite_over_memory
from tests.faults.crashes import crash_again_and_again
from tests.faults.cuts import cut_at_each
from tests.faults.endings import DRAIN, drain_beside_another, end_with_runs
from tests.faults.kills import kill_again_and_again
from tests.faults.memory import MB, Memory, cut_off, keep_heavy_events, keep_hidden_turns
from tests.faults.outages import FAULTS, break_the_store
from tests.faults.pairs import LEASE, run_through_both
from tests.faults.pauses import pause_again_and_again
from tests.faults.restarts import restart_again_and_again
from tests.postgres import fresh_database, postgres_server
from tests.turns import LONGEST_TURN


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured, and whether it is good enough."""

    measured: str
    passed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`measure` gets an empty folder; it raises AssertionError where something is not as it must be."""

    name: str
    what: str
    how: str
    limit: str
    measure: Callable[[Path], Awaitable[Figure]]


async def start(folder: Path) -> Figure:
    times = await seconds_to_first_answer(folder / "server", 10_000, 7)
    return Figure(measured=f"{median(times):.2f} s (slowest {max(times):.2f})", passed=median(times) <= 1.2)


async def sqlite(folder: Path) -> Figure:
    memory, more = await sqlite_over_memory(folder, 2000, 5)
    return Figure(measured=f"{more:.2f} ms (in memory: {memory:.2f})", passed=more <= 1.5)


async def history(folder: Path) -> Figure:
    empty, more = await long_over_empty(folder / "server", 1000, 100, 5)
    return Figure(measured=f"{more:.2f} ms (empty: {empty:.2f})", passed=more <= 5)


async def turns(folder: Path) -> Figure:
    worst, looks = await longest_turn(folder / "server", 10_000)
    return Figure(measured=f"{worst * 1000:.0f} ms in {looks} looks", passed=worst <= LONGEST_TURN)


async def kills(folder: Path) -> Figure:
    found = await kill_again_and_again(folder / "server", 100, note=_dot)
    return Figure(measured=f"{found.acknowledged} things acknowledged, {found.calls} calls: 0 lost, 0 run twice")


async def crashes(folder: Path) -> Figure:
    found = await crash_again_and_again(folder / "server", 20, note=_dot)
    return Figure(measured=f"{found.calls} calls: 0 run twice, but {found.again} of idempotent tools")


async def cuts(folder: Path) -> Figure:
    found = await cut_at_each(folder / "server", 200)
    return Figure(measured=f"{found.cuts} whole, {found.live} of them while the run went on")


async def pauses(folder: Path) -> Figure:
    with fresh_database() as url:
        found = await pause_again_and_again(folder, url, 100, note=_dot)
    return Figure(measured=f"{found.overtaken} runs overtaken, 0 stale writes", passed=found.overtaken >= found.rounds)


async def outages(folder: Path) -> Figure:
    for name in FAULTS:
        await break_the_store(folder / name, name)
    return Figure(measured=f"{', '.join(FAULTS).replace('_', '-')}: well again by itself, 0 lost")


async def restarts(folder: Path) -> Figure:
    with fresh_database() as url:
        found = await restart_again_and_again(folder / "server", postgres_server(), url, 50, note=_dot)
    ends = ", ".join(f"{number} {how}" for how, number in sorted(found.ends.items()))
    return Figure(measured=f"{ends}; {found.acknowledged} things acknowledged: 0 lost, 0 run twice")


async def endings(folder: Path) -> Figure:
    await drain_beside_another(folder / "draining")
    found = await end_with_runs(folder / "server", 100)
    ends = f"{found.ends['draining']} draining, {found.ends['RUN_FINISHED']} finished"
    return Figure(measured=f"{found.seconds:.1f} s; {ends}", passed=found.seconds <= DRAIN + 3)


async def pairs(folder: Path) -> Figure:
    with fresh_database() as url:
        times = await run_through_both(folder, url, 10)
    return Figure(
        measured=f"10 of 10 in turn; stopped after {max(times):.1f} s at most", passed=max(times) <= LEASE / 3 + 1
    )


async def events(folder: Path) -> Figure:
    return _grown(await keep_heavy_events(folder, 16 * MB, 200), 120)


async def hidden_turns(folder: Path) -> Figure:
    return _grown(await keep_hidden_turns(folder, 160, 1_250_000), 140)


async def deaf(folder: Path) -> Figure:
    return _grown(await cut_off(folder, 60, 16 * MB), 60)


def _grown(memory: Memory, most: float) -> Figure:
    return Figure(measured=f"{memory.more:.0f} MB (before: {memory.before:.0f})", passed=memory.more <= most)


def _dot(done: int) -> None:
    if done % 10 == 0:
        print(".", end="", flush=True)


CHECKS = (
    Check(
        name="start",
        what="First answer after the process starts, 10 000 sessions on disk",
        how="7 starts; an AG-UI run on fake:fake, to its end; median",
        limit="1.2 s",
        measure=start,
    ),
    Check(
        name="sqlite",
        what="CPU that a run costs more on SQLite than in memory",
        how="two servers in turn, 5 rounds of 2 000 runs, 8 at once; median of the differences",
        limit="1.5 ms",
        measure=sqlite,
    ),
    Check(
        name="history",
        what="CPU that a run costs more in a session of 1 000 messages than in an empty one",
        how="SQLite, in turn, 5 rounds of 100 runs, 8 at once; median of the differences",
        limit="5 ms",
        measure=history,
    ),
    Check(
        name="turns",
        what="The longest that the event loop works without a pause under fuzz",
        how="10 000 fuzzed bodies on each endpoint, then long sessions, large bodies and hard schemas; CPU time of the "
        "loop's thread and of those that work for it, looked at every 2 ms",
        limit=f"{LONGEST_TURN * 1000:.0f} ms",
        measure=turns,
    ),
    Check(
        name="kills",
        what="kill -9 of the server under load, 100 times on the same data",
        how="12 clients with tools, some in shared sessions; after each kill the entries are compared with what the "
        "clients were told, the chain is verified, and every session goes on",
        limit="nothing acknowledged lost, every history paired, no call run twice",
        measure=kills,
    ),
    Check(
        name="crashes",
        what="kill -9 while tools run, 20 times, and then everything that could run their calls again",
        how="in the session, a fork, an import of its export and a restored snapshot: edits of what was observed, the "
        "transcript under a new system message, the used approval, new messages, in another order each time",
        limit="no call run twice; idempotent ones again in their own session only, under their old key",
        measure=crashes,
    ),
    Check(
        name="cuts",
        what="A stream cut at each of 200 indexes and attached again",
        how="`X-On-Disconnect: continue`, then `Last-Event-ID`; before + behind = the whole",
        limit="every sequence whole",
        measure=cuts,
    ),
    Check(
        name="pauses",
        what="SIGSTOP of an owner past its lease, 100 times",
        how="two servers on PostgreSQL; five sessions in tools and answers are taken over, then the owner wakes up",
        limit="no stale write, its streams end with `worker_lost`",
        measure=pauses,
    ),
    Check(
        name="outages",
        what="SQLite's file locked, full, read-only, gone under a running server",
        how="a run in mid-tool, new runs, `/readyz`; then the fault is taken away",
        limit="one RUN_ERROR, 503, 503; nothing lost",
        measure=outages,
    ),
    Check(
        name="restarts",
        what="PostgreSQL restarted at once in mid-run, 50 times",
        how="8 clients with tools",
        limit="each run completed, refused or one RUN_ERROR; nothing lost, no call run twice",
        measure=restarts,
    ),
    Check(
        name="endings",
        what="SIGTERM with 100 runs open",
        how="in tools, in answers, waiting for their session, about to end; a second server on the same data "
        "is refused meanwhile and works after",
        limit=f"all terminal and committed; exit within {DRAIN + 3:g} s (drain + 3)",
        measure=endings,
    ),
    Check(
        name="pairs",
        what="Two servers on one PostgreSQL: a session's runs take turns, and one stops the other's run",
        how=f"10 times; a heartbeat each {LEASE / 3:g} s",
        limit=f"no overlap; stopped within {LEASE / 3 + 1:g} s (a heartbeat + 1)",
        measure=pairs,
    ),
    Check(
        name="events",
        what="Memory that heavy events of 800 runs take, 16 MB of which may be kept (`OSTINATO_LOG_BYTES`)",
        how="200 long answers, 200 interrupts, 200 runs with much progress, 200 with an image of 600 kB as a result",
        limit="120 MB",
        measure=events,
    ),
    Check(
        name="hidden",
        what="Memory that 160 unnamed conversations take that wait for their clients, 1.25 MB each",
        how="`/v1/chat/completions` with tools of both sides, in memory; 64 MB may be kept",
        limit="140 MB",
        measure=hidden_turns,
    ),
    Check(
        name="deaf",
        what="Memory that is taken when 60 clients that never read are cut off in the same moment",
        how="AG-UI on SQLite, an endless answer to each; the highest beside what was there before",
        limit="60 MB",
        measure=deaf,
    ),
)
