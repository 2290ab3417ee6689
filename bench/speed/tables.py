"""Numbers with their spread, and tables of them, in Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Spread:
    """What was measured, once for each restart."""

    values: tuple[float, ...]

    @property
    def middle(self) -> float:
        return median(self.values)

    def told(self, unit: str = "", digits: int = 2) -> str:
        """The median, and the least and the most: `2.41 (2.30-2.60) ms`."""
        low, high = min(self.values), max(self.values)
        return f"{self.middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})" + (f" {unit}" if unit else "")


def ratios(ours: Spread, theirs: Spread) -> Spread:
    """The ratios, round by round: what was measured in turn belongs together."""
    return Spread(tuple(one / other for one, other in zip(ours.values, theirs.values, strict=True)))


def differences(ours: Spread, theirs: Spread) -> Spread:
    """The differences, round by round."""
    return Spread(tuple(one - other for one, other in zip(ours.values, theirs.values, strict=True)))


def met(value: float, most: float) -> str:
    """Whether the target was met."""
    return "yes" if value <= most else "**no**"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table under its heading. `text` stands before it; without rows it stands alone."""

    title: str
    text: str
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", self.text]
        if self.rows:
            lines += ["", _row(self.heads), "|" + "---|" * len(self.heads), *(_row(each) for each in self.rows)]
        return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
