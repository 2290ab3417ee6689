"""`.env` adds to the environment, or is refused."""

import os
from pathlib import Path

import pytest

from app.command.env_file import load_env_file
from app.settings import SettingsError, read_settings


def test_the_env_file_fills_only_what_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / ".env"
    file.write_bytes("\ufeffOPENAI_API_KEY='sk-file'\nOPENAI_BASE_URL=http://file\nOSTINATO_PORT=9003\n".encode())
    for name in ("OPENAI_API_KEY", "OSTINATO_PORT"):
        monkeypatch.setenv(name, "to be deleted, and restored after the test")
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://environment")
    load_env_file(file)
    assert os.environ["OPENAI_API_KEY"] == "sk-file"
    assert os.environ["OPENAI_BASE_URL"] == "http://environment"
    assert read_settings().port == 9003
    assert read_settings({"port": 9004}).port == 9004


def test_an_env_file_that_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_bytes(b"OSTINATO_PORT=\xff\xfe")
    with pytest.raises(SettingsError, match=r"^\.env: the file cannot be read as UTF-8 text\.$"):
        load_env_file(file)


def test_a_missing_env_file_changes_nothing(tmp_path: Path) -> None:
    before = dict(os.environ)
    load_env_file(tmp_path / ".env")
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    "text", ['OSTINATO_API_KEYS="alice:0123456789abcdef\n', "A=1\nnot a variable at all\n", "A=\0\n"]
)
def test_an_env_file_with_a_line_that_cannot_be_read_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"^\.env: line \d"):
        load_env_file(path)
