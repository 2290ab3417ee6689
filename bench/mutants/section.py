"""The section of docs/reliability.md that `make mutants` writes, and `make accept` keeps."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TARGET = 0.85
HEADING = "\n## Faults that the tests notice\n"
REASONS = "\n### Survivors that matter\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How an area did: the mutants that it has, those that were tried, and those that no test noticed."""

    area: str
    possible: int
    tried: int
    survivors: tuple[str, ...]

    @property
    def killed(self) -> int:
        return self.tried - len(self.survivors)


def section_of(page: str) -> str:
    """The section as it stands in the page, to its end."""
    _, heading, section = page.partition(HEADING)
    return heading + section


def put_section(file: Path, scores: Sequence[Score], seed: int) -> None:
    """Write the section anew. The reasons, which people write, stay."""
    page = file.read_text()
    before, _, section = page.partition(HEADING)
    _, heading, reasons = section.partition(REASONS)
    file.write_text(before + _section(scores, seed) + heading + reasons)


def _section(scores: Sequence[Score], seed: int) -> str:
    rows = "\n".join(
        f"| {score.area} | {score.possible} | {score.tried} | {score.killed} | {100 * score.killed // score.tried} % |"
        for score in scores
    )
    survivors = "\n".join(f"- {score.area}: `{each}`" for score in scores for each in score.survivors)
    return f"""{HEADING}
Written by `make mutants`: of each area a sample of small faults (seed {seed}), each sown alone in a copy of the tree
and tried against that area's tests for at most 60 s. A fault is a comparison, a boolean or a condition turned round, a
number moved by one, a call, a raise or an assignment left out, or two neighbouring effects in the other order. At
least {100 * TARGET:.0f} % are to be noticed.

| area | faults | tried | noticed | score |
|---|---|---|---|---|
{rows}

Not noticed:

{survivors or "none"}
"""
