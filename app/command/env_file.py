"""`.env` in the current folder, below the environment: OPENAI_API_KEY and OPENAI_BASE_URL work there too."""

import os
from io import StringIO
from pathlib import Path

from dotenv import dotenv_values
from dotenv.parser import parse_stream

from app.settings import SettingsError


def load_env_file(path: Path) -> None:
    """Add the file's variables to the environment; those that are set already stay as they are.

    A file that does not exist adds none. Raises SettingsError if it cannot be read.
    """
    if not path.is_file():
        return
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise SettingsError(f"{path.name}: the file cannot be read as UTF-8 text.") from None
    for line in parse_stream(StringIO(text)):
        # A bad line is an error: it may be the one with the keys.
        if line.error or "\0" in line.original.string:
            raise SettingsError(f"{path.name}: line {line.original.line} is not NAME=value (is a quote missing?).")
    for name, value in dotenv_values(stream=StringIO(text)).items():
        if value is not None:
            os.environ.setdefault(name, value)
