"""The image and the wheel it is built from. No container engine is needed: the files are read, and the
wheel is built, installed and asked for its version.
"""

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.missing import skip_without

ROOT = Path(__file__).parents[2]


def blocks(lock: str) -> dict[str, tuple[str, list[str]]]:
    """The packages of a lock: the pinned version with its hashes, and who needs it."""
    found = {}
    for block in re.split(r"(?m)^(?=[a-z0-9])", (ROOT / lock).read_text()):
        if name := re.match(r"[a-z0-9._-]+", block):
            pins = block.partition("    # via")[0]
            found[name[0]] = (pins, re.findall(r"(?m)^    #(?: via|  ) +(\S.*)$", block))
    return found


def instructions() -> list[str]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_image_gets_exactly_what_serving_needs_from_the_one_lock() -> None:
    every, served = blocks("requirements.lock"), blocks("requirements-serve.lock")
    needed = {"asyncpg", "greenlet"}  # the extra for PostgreSQL, which the image has
    while True:
        grown = needed | {n for n, (_, by) in every.items() if "ostinato (pyproject.toml)" in by or needed & set(by)}
        if grown == needed:
            break
        needed = grown
    assert "fastapi" in needed
    assert "pytest" not in needed
    assert {name: pins for name, (pins, _) in served.items()} == {name: every[name][0] for name in sorted(needed)}


def test_each_direct_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[><=;\[ ]", each)[0] for each in project["dependencies"]}
    assert names <= set(blocks("requirements-serve.lock"))


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-serve.lock"])
def test_a_lock_has_hashes_and_names_no_registry(lock: str) -> None:
    assert "://" not in (ROOT / lock).read_text()
    assert all("--hash=sha256:" in pins for pins, _ in blocks(lock).values())


def test_the_image_runs_as_a_user_without_rights_and_checks_its_health() -> None:
    lines = instructions()
    last = lines[max(n for n, line in enumerate(lines) if line.startswith("FROM ")) :]
    assert "USER 10001" in last
    assert any(line.startswith("HEALTHCHECK") and "/healthz" in line for line in last)
    assert 'ENTRYPOINT ["ostinato", "serve"]' in last
    assert any("--require-hashes -r requirements-serve.lock" in line for line in lines)


def test_all_that_the_image_copies_passes_the_ignore_file() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        name
        for line in instructions()
        if line.startswith("COPY ") and "--from" not in line
        for name in line.split()[1:-1]
    }
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)


def test_compose_demands_a_key_and_publishes_on_this_machine_only() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    assert re.search(r'OSTINATO_API_KEYS: "\$\{OSTINATO_API_KEYS:\?', text)
    ports = re.search(r"ports:\n((?: +- .*\n)+)", text)
    assert ports is not None
    assert [line.strip() for line in ports[1].splitlines()] == ['- "127.0.0.1:8000:8000"']


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OSTINATO_"))}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_the_floors_and_its_command_answers(tmp_path: Path) -> None:
    skip_without(find_spec("hatchling") is not None, "the build backend hatchling is not installed")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {
        "ostinato", "agent_core", "converters", "app",
    }  # fmt: skip
    assert not [name for name in names if "test" in name]
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    # The dependencies are the test environment's; the wheel's own packages come first in the path.
    libraries = next(path for path in map(Path, sys.path) if (path / "click").is_dir())
    (site / "dependencies.pth").write_text(f"{libraries}\n")
    assert run(tmp_path / "venv" / "bin" / "ostinato", "--version", cwd=tmp_path).startswith("ostinato, version ")
    where = run(python, "-c", "import ostinato, app; from ostinato import Agent; print(app.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(site.resolve())
