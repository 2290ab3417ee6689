"""What is kept under version control: only what belongs there. A script for one afternoon does not."""

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

from tests.missing import skip_without

ROOT = Path(__file__).parent.parent

FILES = {
    ".dockerignore",
    ".env.example",
    ".gitignore",
    "AGENTS.md",
    "CHANGELOG.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "docker-compose.yml",
    "pyproject.toml",
    "requirements-clients.lock",
    "requirements-serve.lock",
    "requirements.lock",
}
"""The files at the root. One that is added there is added here too, on purpose."""

FOLDERS = {".ci", "agent_core", "app", "bench", "converters", "docs", "examples", "ostinato", "tests"}

KINDS = {
    ".py",
    ".pyi",
    ".typed",
    ".md",
    ".json",
    ".jsonl",
    ".mjs",
    ".jsx",
    ".ts",
    ".tsx",
    ".html",
    ".in",
    ".toml",
    ".yml",
    ".db",
    ".key",
    ".anchor",
}
"""The kinds of files in the folders."""

OTHERS = {".ci/run", "tests/clients/node/.npmrc"}


def strangers(paths: list[str]) -> list[str]:
    """The paths that do not belong in the repository."""
    return [each for each in paths if not _belongs(PurePosixPath(each))]


def _belongs(path: PurePosixPath) -> bool:
    if len(path.parts) == 1:
        return path.name in FILES
    return path.parts[0] in FOLDERS and (path.suffix in KINDS or str(path) in OTHERS)


@cache
def _tracked() -> list[str] | None:
    """The paths that git tracks here; None for files without a repository of their own, as from an archive."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return None
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split("\0")[:-1] if done.returncode == 0 else None


def test_only_what_belongs_there_is_in_the_repository() -> None:
    tracked = _tracked()
    skip_without(tracked is not None, "these files are not in a git repository")
    assert tracked, "git tracks nothing here"
    assert strangers(tracked) == []


@pytest.mark.parametrize(
    "path", ["t6.sh", "try.py", "notes.md", "out.log", "scratch/a.py", "tests/t6.sh", "app/a.py.orig", "docs/a.png"]
)
def test_what_was_left_lying_about_is_found(path: str) -> None:
    assert strangers(["README.md", path, "app/main.py"]) == [path]


def test_no_lock_names_where_packages_come_from() -> None:
    node = json.loads((ROOT / "tests/clients/node/package-lock.json").read_text())
    assert [name for name, package in node["packages"].items() if "resolved" in package] == []
    for lock in ROOT.glob("*.lock"):
        assert "://" not in lock.read_text(), lock.name
