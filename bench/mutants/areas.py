"""What is tried: the files of each area, and the tests that have to notice a fault in them."""

from dataclasses import dataclass
from pathlib import Path

CORE = "tests/agent_core"
SESSIONS = f"{CORE}/sessions"
OPERATOR = ("tests/app/command/test_sessions.py", "tests/app/test_journal_procedures.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """Files and folders with faults, and tests; those that come first run first."""

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]

    def files(self, root: Path) -> list[str]:
        """The area's source files, as paths below the root."""
        found = [
            file
            for source in self.sources
            for file in (sorted((root / source).rglob("*.py")) if (root / source).is_dir() else [root / source])
        ]
        return [str(file.relative_to(root)) for file in found]


AREAS = (
    Area(
        name="gate and leases",
        sources=("agent_core/gate.py", "agent_core/sessions/leases.py"),
        tests=(f"{CORE}/test_gate.py", f"{SESSIONS}/test_leases.py", "tests/safety", f"{CORE}/test_runner.py"),
    ),
    Area(
        name="heartbeat",
        sources=("agent_core/sessions/heartbeat.py",),
        tests=(f"{SESSIONS}/test_heartbeat.py", "tests/safety", f"{SESSIONS}/test_leases.py"),
    ),
    Area(
        name="sql",
        sources=("agent_core/sessions/sql",),
        tests=(
            f"{SESSIONS}/sql",
            f"{SESSIONS}/test_owners.py",
            f"{SESSIONS}/test_records.py",
            f"{SESSIONS}/test_stores.py",
            "tests/safety",
            *OPERATOR,
        ),
    ),
    Area(
        name="journal",
        sources=("agent_core/sessions/journal",),
        tests=(f"{SESSIONS}/journal", f"{SESSIONS}/sql", f"{SESSIONS}/test_stores.py", *OPERATOR),
    ),
    Area(
        name="react",
        sources=("agent_core/react",),
        tests=(
            f"{CORE}/react",
            f"{CORE}/test_approval.py",
            f"{CORE}/test_edits.py",
            f"{CORE}/test_interrupts.py",
            f"{CORE}/test_nothing_twice.py",
            f"{CORE}/test_recovery.py",
            f"{CORE}/test_runner.py",
            f"{CORE}/test_state.py",
            f"{CORE}/test_threads.py",
            f"{CORE}/test_trust_machine.py",
            "tests/safety",
        ),
    ),
    Area(
        name="converters",
        sources=("converters",),
        tests=("tests/converters",),
    ),
    Area(
        name="retries",
        sources=("app/retries",),
        tests=(
            "tests/app/retries",
            "tests/safety",
            "tests/live/test_claims.py",
            "tests/live/test_stopped_claims.py",
            "tests/live/test_asking_again.py",
            "tests/live/test_openai.py",
            "tests/live/test_openai_again.py",
            "tests/live/test_hidden_turns.py",
        ),
    ),
)
