"""The small faults that `make mutants` sows, and the page that it writes."""

import ast
from pathlib import Path

from bench.mutants.areas import AREAS
from bench.mutants.mutations import mutants_of
from bench.mutants.section import REASONS, Score, put_section, section_of

ROOT = Path(__file__).resolve().parents[1]

SOURCE = '''
"""Text with "==" in it."""
LIMIT = 10
@frozen(slots=True)
class Thing:
    size: int = 3
    async def act(self, ready: bool = True) -> int | None:
        assert ready is not None
        logger.info("not %s", True)
        if ready and self.size > 3:
            await self.go()
            self.size = é(1)
            raise ValueError(f"{ready == 1}")
        return [each for each in self if each.good] + 7
'''

FAULTS = [
    (7, "True → False"),
    (10, "ready and self.size > 3 → ready or self.size > 3"),
    (10, "self.size > 3 → self.size >= 3"),
    (10, "3 → 4"),
    (10, "3 → 2"),
    (11, "left out: await self.go()"),
    (11, "swapped: await self.go() / self.size = é(1)"),
    (12, "left out: self.size = é(1)"),
    (12, "1 → 2"),
    (12, "1 → 0"),
    (13, "left out: raise ValueError(f'{ready == 1}')"),
    (14, "[each for each in self if each.good] + 7 → [each for each in self if each.good] - 7"),
    (14, "each.good → not each.good"),
    (14, "7 → 8"),
    (14, "7 → 6"),
]


def test_faults_are_sown_where_a_test_could_notice_them_and_nowhere_else() -> None:
    mutants = mutants_of("a.py", SOURCE.encode())
    assert sorted((each.line, each.what) for each in mutants) == sorted(FAULTS)


def test_each_fault_changes_what_it_says_and_leaves_a_program() -> None:
    found = {each.what: each.sown_in(SOURCE.encode()).decode() for each in mutants_of("a.py", SOURCE.encode())}
    assert "            self.size = é(1)\n            await self.go()\n" in found[FAULTS[6][1]]
    assert "            pass\n            self.size = é(1)\n" in found[FAULTS[5][1]]
    for source in found.values():
        assert source != SOURCE
        ast.parse(source)


def test_every_area_has_its_files_and_its_tests() -> None:
    for area in AREAS:
        assert area.files(ROOT)
        for path in (*area.files(ROOT), *area.tests):
            assert (ROOT / path).exists(), f"{area.name}: {path}"


def test_the_section_is_written_anew_and_what_people_wrote_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("# Page\n\nabove\n")
    for survivors in (("a.py:1: x",), ()):
        put_section(file, [Score(area="gate", possible=9, tried=4, survivors=survivors)], 6)
        text = file.read_text()
        assert text.startswith("# Page\n\nabove\n\n## ")
        assert text.count("| gate | 9 | 4 |") == 1
        assert ("a.py:1: x" in text) == bool(survivors)
        assert section_of("other page\n") == ""
        assert file.read_text().endswith(section_of(text))
        if survivors:
            file.write_text(text + REASONS + "\n- because\n")
    assert file.read_text().endswith(REASONS + "\n- because\n")
