"""docs/performance.md, from what was measured."""

from collections.abc import Sequence
from datetime import date

from bench.speed.peers import peers
from bench.speed.tables import Table


def page(tables: Sequence[Table], *, machine: str, rounds: int, loads: tuple[float, float], minutes: float) -> str:
    """`loads` are the machine's load averages over a minute, before and after."""
    head = f"""\
# Performance

Written by `make bench` on {date.today().isoformat()}: {machine}. Do not edit by hand.

One worker on one core; the client, the upstream and PostgreSQL on another. {rounds} rounds, each with fresh processes
of all sides in turn, {minutes:.0f} minutes together. A figure is the median, with the least and the most in
parentheses. The machine's load average was {loads[0]:.1f} before and {loads[1]:.1f} after; {_quiet(loads[0])}

Every stream is read to its end and compared with what the upstream said: a wrong one fails the command, a missed
target does not. `make bench ONLY=streams,growth` measures parts and writes nothing.

"""
    return head + "\n".join(each.markdown() for each in (*tables, peers()))


def _quiet(load: float) -> str:
    if load < 0.5:
        return "nobody else worked on it."
    return "others worked on it, so only ratios\nand differences inside a round hold."
