"""`ostinato sessions …`: what an operator does with the sessions that servers keep."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

# What does the work is imported when a command runs, so that `--help` answers at once.


class CannotVerify(click.ClickException):
    """Why the journal cannot be checked in full, or not accepted. Exit code 1 says that it is not whole."""

    exit_code = 2


@click.group()
def sessions() -> None:
    """Look after the sessions that servers keep."""


def _where(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name the database, as `serve` has them."""
    store = "Where sessions live: sqlite or a postgresql:// URL (OSTINATO_STORE; default sqlite)."
    data_dir = click.Path(path_type=Path)
    command = click.option("--data-dir", type=data_dir, help="The server's files (OSTINATO_DATA_DIR).")(command)
    return click.option("--store", help=store)(command)


def _use(options: dict[str, Any], do: Callable[[Any], Any]) -> Any:
    """What `do` makes of the storage that the options name. Raises CannotVerify."""
    from agent_core.errors import StoreError
    from app.command.env_file import load_env_file
    from app.settings import SettingsError, read_settings

    try:
        load_env_file(Path.cwd() / ".env")
        return do(read_settings(options).storage())
    except (SettingsError, StoreError) as exc:
        raise CannotVerify(str(exc)) from None


@sessions.command()
@_where
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

    def check(storage: Any) -> tuple[Any, Path | None]:
        own = storage.anchor
        known = [*([own] if own.exists() else []), *anchors]
        return storage.verify(known), None if known else own

    report, missing = _use(options, check)
    for line in _lines(report):
        click.echo(line)
    if not report.whole:
        context.exit(1)
    if missing is not None:
        raise CannotVerify(f"{missing} is missing, so an end that was cut off would not be noticed: give --anchor.")


@sessions.command()
@_where
@click.pass_context
def accept(context: click.Context, /, **options: Any) -> None:
    """After a restore: take the database as it stands for the true one.

    Lists what the anchor knows and the database has not, keeps that anchor under another name, and puts one of the
    database in its place; then the sessions that the server refused are used again.

    Exit code 0: done, or there is nothing to accept. 1: the database itself is not whole; nothing was changed.
    2: it cannot be done.
    """
    accepted = _use(options, lambda storage: storage.accept())
    if not accepted.database.whole:
        for line in _lines(accepted.database):
            click.echo(line)
        click.echo("Nothing was changed.")
        context.exit(1)
    if not accepted.done:
        click.echo("The database is not behind its anchor: there is nothing to accept.")
        return
    for line in _findings(accepted.given_up):
        click.echo(line)
    click.echo(f"{_counted(accepted.database)} are taken as they stand.")
    if accepted.kept is not None:
        click.echo(f"The anchor of before is kept as {accepted.kept}.")


def _findings(report: Any) -> Iterator[str]:
    yield from map(str, report.findings)
    more = report.wrong - len(report.findings)
    if more:
        yield f"… and {_number(more)} more"


def _counted(report: Any) -> str:
    return f"{_count(report.entries, 'entry', 'entries')} of {_count(report.sessions, 'session', 'sessions')}"


def _lines(report: Any) -> Iterator[str]:
    """The findings, the first bad entry first, or that there are none."""
    if report.whole:
        yield f"{_counted(report)}, {_number(report.tombstones)} deleted: the journal is whole."
        return
    yield from _findings(report)
    yield f"{_counted(report)} were read: the journal is not whole."


def _count(number: int, one: str, many: str) -> str:
    return f"{_number(number)} {one if number == 1 else many}"


def _number(number: int) -> str:
    return f"{number:,}".replace(",", " ")
