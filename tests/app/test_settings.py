"""The sources of a setting, and the errors of wrong values."""

import os
from pathlib import Path

import pytest

from app.settings import Settings, SettingsError, read_settings


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("OSTINATO_"):
            monkeypatch.delenv(name)


def test_the_defaults_are_those_of_the_documentation() -> None:
    settings = Settings()
    assert (settings.host, settings.port, settings.store, settings.model) == ("127.0.0.1", 8000, "sqlite", None)
    assert (settings.model_idle_seconds, settings.run_seconds, settings.ping_seconds) == (60, 900, 15)
    assert (settings.when_busy, settings.queue_size, settings.queue_seconds) == ("queue", 8, 30)
    assert (settings.drain_seconds, settings.body_limit, settings.log_level) == (10, 2_000_000, "info")
    assert settings.allowed_hosts == settings.allowed_origins == ()


def test_the_example_file_names_every_setting_with_its_default() -> None:
    lines = (Path(__file__).parents[2] / ".env.example").read_text().splitlines()
    shown = dict(line.removeprefix("#").partition("=")[::2] for line in lines if line.startswith("#OSTINATO_"))
    for name, value in Settings().model_dump().items():
        text = shown.pop(f"OSTINATO_{name.upper()}")
        if name not in ("api_keys", "api_key", "journal_key"):
            default = "" if value is None else ",".join(value) if isinstance(value, tuple) else f"{value}"
            assert text == default.removesuffix(".0"), name
    assert shown == {}


def test_the_command_line_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSTINATO_PORT", "9001")
    monkeypatch.setenv("OSTINATO_HOST", "localhost")
    settings = read_settings({"port": 9002, "host": None})
    assert (settings.port, settings.host) == (9002, "localhost")


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSTINATO_PORT", "")
    monkeypatch.setenv("OSTINATO_MODEL", "")
    assert (Settings().port, Settings().model) == (8000, None)


def test_lists_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSTINATO_ALLOWED_HOSTS", "Agents.example.com, [::1],")
    monkeypatch.setenv("OSTINATO_ALLOWED_ORIGINS", "http://localhost:3000/, https://ui.example.com")
    settings = Settings()
    assert settings.allowed_hosts == ("agents.example.com", "::1")
    assert settings.allowed_origins == ("http://localhost:3000", "https://ui.example.com")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("PORT", "70000", "less than or equal to 65535"),
        ("PORT", "http", "valid integer"),
        ("STORE", "redis://:secret@host", "'redis'… is no store: use 'sqlite', 'memory' or a postgresql:// URL"),
        ("ON_DISCONNECT", "stay", "'cancel' or 'continue'"),
        ("MAX_SESSIONS", "0", "greater than or equal to 1"),
        ("SESSION_DAYS", "-1", "greater than 0"),
        ("MODEL", "gpt", "'gpt' is not of the form provider:model"),
        ("WHEN_BUSY", "wait", "'queue' or 'reject'"),
        ("QUEUE_SIZE", "-1", "greater than or equal to 0"),
        ("RUN_SECONDS", "0", "greater than 0"),
        ("RUN_SECONDS", "inf", "finite"),
        ("MODEL_IDLE_SECONDS", "nan", "finite"),
        ("BODY_LIMIT", "0", "greater than or equal to 1"),
        ("LOG_LEVEL", "loud", "'debug', 'info', 'warning' or 'error'"),
        ("ALLOWED_ORIGINS", "*", "never allowed"),
        ("ALLOWED_ORIGINS", "https://*.example.com", "never allowed"),
        ("ALLOWED_ORIGINS", "localhost:3000", "not an origin"),
        ("ALLOWED_ORIGINS", "http://a.example/path", "not an origin"),
        ("ALLOWED_HOSTS", "*", "not a host name"),
        ("ALLOWED_HOSTS", "https://a.example", "not a host name"),
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_the_variable(
    name: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"OSTINATO_{name}", value)
    with pytest.raises(SettingsError) as caught:
        read_settings()
    sentence = str(caught.value)
    assert sentence.startswith(f"OSTINATO_{name}: ")
    assert says in sentence
    assert "\n" not in sentence


def test_a_wrong_option_is_named_as_it_was_typed() -> None:
    with pytest.raises(SettingsError, match=r"^--store: 'mysql'… is no store"):
        read_settings({"store": "mysql"})


def test_the_keys_are_those_of_both_settings_and_none_where_they_name_nobody() -> None:
    given = Settings(api_keys="ann:0123456789abcdef", api_key="fedcba9876543210")  # type: ignore[arg-type]
    assert sorted(given.read_keys().digests) == ["ann", "default"]
    for empty in ("", " , "):
        assert not Settings(api_keys=empty).read_keys()  # type: ignore[arg-type]


def test_secrets_show_neither_in_repr_nor_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSTINATO_API_KEYS", "ann:top-secret-top-secret")
    monkeypatch.setenv("OSTINATO_API_KEY", "another-secret-of-ours")
    assert "secret-" not in repr(Settings()) + str(Settings())
    monkeypatch.setenv("OSTINATO_PORT", "x")
    with pytest.raises(SettingsError) as caught:
        read_settings()
    assert "secret" not in str(caught.value)
