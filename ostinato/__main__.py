"""The command `ostinato`, also as `python -m ostinato`."""

import sys
from importlib.util import find_spec
from pathlib import Path

FLOORS = ("app", "converters", "agent_core")


def find_stranger(home: Path) -> str | None:
    """One sentence about the first floor that is not Ostinato's own, in the folder `home`; else None.

    A project may have an `app/` of its own, which `python -m` or PYTHONPATH puts first.
    """
    for name in FLOORS:
        spec = find_spec(name)
        if spec is None:
            return f"The package {name!r} of Ostinato is missing: install ostinato again."
        where = Path(spec.origin or next(iter(spec.submodule_search_locations or ("",)), ""))
        if where.resolve() != home / name / "__init__.py":
            return (
                f"The package {name!r} that Python finds is {where}, not Ostinato's: "
                "start it with the command `ostinato`, or from another folder, or unset PYTHONPATH."
            )
    return None


def main() -> None:
    """Run the command line, or say whose packages stand in the way and exit with 1."""
    stranger = find_stranger(Path(__file__).resolve().parent.parent)
    if stranger is not None:
        sys.exit(stranger)
    from app.command.cli import cli  # after the check: it could be another package's

    cli(prog_name="ostinato")


if __name__ == "__main__":
    main()
