"""`ostinato sessions …`: what an operator does with the sessions that servers keep."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

# As in cli.py, what does the work is imported in the command only.


class CannotVerify(click.ClickException):
    """Why the journal cannot be checked, or not in full; 1 is for one that is not whole."""

    exit_code = 2


@click.group()
def sessions() -> None:
    """Look after the sessions that servers keep."""


@sessions.command()
@click.option("--store", help="Where sessions live: sqlite or a postgresql:// URL (OSTINATO_STORE; default sqlite).")
@click.option("--data-dir", type=click.Path(path_type=Path), help="The server's files (OSTINATO_DATA_DIR).")
@click.option(
    "--anchor",
    "anchors",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Another worker's anchor, or a copy that was kept elsewhere; can be repeated.",
)
@click.pass_context
def verify(context: click.Context, /, anchors: tuple[Path, ...], **options: Any) -> None:
    """Check that nothing in the journal was altered, added, moved, removed or cut off.

    Exit code 0: it is whole. 1: it is not. 2: it cannot be checked.
    """
    from agent_core.sessions.journal.anchor import ANCHOR_FILE
    from app.settings import SettingsError, load_env_file, read_settings
    from app.verifying import NotVerified, check

    try:
        load_env_file(Path.cwd() / ".env")
        settings = read_settings(options)
        own = settings.data_dir / ANCHOR_FILE
        known = [*([own] if own.exists() else []), *anchors]
        report = check(settings, known)
    except (SettingsError, NotVerified) as exc:
        raise CannotVerify(str(exc)) from None
    for line in _lines(report):
        click.echo(line)
    if not report.whole:
        context.exit(1)
    if not known:
        raise CannotVerify(f"{own} is missing, so an end that was cut off would not be noticed: give --anchor.")


def _lines(report: Any) -> Iterator[str]:
    """The findings, the first bad entry first, or that there are none."""
    counted = f"{_count(report.entries, 'entry', 'entries')} of {_count(report.sessions, 'session', 'sessions')}"
    if report.whole:
        yield f"{counted}, {_number(report.tombstones)} deleted: the journal is whole."
        return
    yield from map(str, report.findings)
    more = report.wrong - len(report.findings)
    if more:
        yield f"… and {_number(more)} more"
    yield f"{counted} were read: the journal is not whole."


def _count(number: int, one: str, many: str) -> str:
    return f"{_number(number)} {one if number == 1 else many}"


def _number(number: int) -> str:
    return f"{number:,}".replace(",", " ")
