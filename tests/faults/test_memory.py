"""See memory.py: shortened, and with room for whatever an allocator does not give back."""

from pathlib import Path

from agent_core.sessions.folds import MOST_KEPT
from tests.faults.memory import MB, cut_off, keep_heavy_events, keep_hidden_turns

FOLDS = MOST_KEPT / MB
"""What is kept of the sessions that were used, beside what a test is about."""


async def test_the_events_of_runs_take_no_more_than_may_be_kept_whatever_they_hold(tmp_path: Path) -> None:
    assert (await keep_heavy_events(tmp_path / "server", 4 * MB, 60)).more < 60 + FOLDS


async def test_conversations_that_wait_for_their_clients_take_no_more_than_their_bound(tmp_path: Path) -> None:
    assert (await keep_hidden_turns(tmp_path / "server", 120, 1_250_000)).more < 140


async def test_clients_that_are_cut_off_together_cost_no_multiple_of_their_answers(tmp_path: Path) -> None:
    assert (await cut_off(tmp_path / "server", 20, 16 * MB)).more < 80 + FOLDS
