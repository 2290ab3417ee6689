"""Medians, spreads and the page of `make bench`."""

from datetime import date

from bench.speed.page import page
from bench.speed.peers import peers
from bench.speed.tables import Spread, Table, differences, met, ratios


def test_a_figure_is_the_median_with_the_least_and_the_most() -> None:
    assert Spread((3.0, 1.0, 2.5)).told("ms") == "2.50 (1.00-3.00) ms"
    assert Spread((500.4,)).told(digits=0) == "500 (500-500)"


def test_ratios_and_differences_are_taken_round_by_round() -> None:
    mine, theirs = Spread((1.0, 4.0, 9.0)), Spread((2.0, 2.0, 3.0))
    assert ratios(mine, theirs).values == (0.5, 2.0, 3.0)
    assert differences(mine, theirs).values == (-1.0, 2.0, 6.0)


def test_a_target_is_met_up_to_its_limit() -> None:
    assert met(0.6, 0.6) == "yes"
    assert met(0.61, 0.6) == "**no**"


def test_a_table_is_written_in_markdown() -> None:
    table = Table(title="Few", text="Two.", heads=("a", "b"), rows=(("1", "2"), ("3", "4")))
    assert table.markdown() == "## Few\n\nTwo.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n"
    assert Table(title="None", text="Skipped.").markdown() == "## None\n\nSkipped.\n"


def test_all_rows_of_the_peers_have_as_many_cells_as_heads() -> None:
    table = peers()
    assert {len(row) for row in table.rows} == {len(table.heads)}


def test_the_page_names_the_machine_its_load_and_the_rounds() -> None:
    written = page([Table(title="Few", text="Two.")], machine="2 cores", rounds=3, loads=(1.25, 2.0), minutes=19.6)
    for told in (
        "2 cores",
        "3 rounds",
        "20 minutes",
        "1.2 before",
        "2.0 after",
        "others worked",
        "## Few",
        date.today().isoformat(),
    ):
        assert told in written, told
    assert max(len(line) for line in written.splitlines() if not line.startswith("|")) <= 120
