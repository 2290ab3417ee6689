"""The word that is kept of a client."""

import pytest

from converters.agui.decode import parse_run_input
from converters.agui.dialect import Dialect, dialect_of, take_reasoning

ASKED = b'{"threadId":"t","runId":"r","tools":[],"context":[],"messages":[%s{"id":"u","role":"user","content":"hi"}]%s}'
REASONING = b'{"id":"m","role":"reasoning","content":"hm"},'
VERSION = b',"protocolVersion":"1.0"'


@pytest.mark.parametrize(
    ("reasoning", "version", "word", "dialect", "takes"),
    [
        (b"", b"", "agui/0.x", Dialect.OLD, False),
        (REASONING, b"", "agui/0.x+reasoning", Dialect.OLD, True),
        (b"", VERSION, "agui/1.0", Dialect.V1, True),
        (REASONING, VERSION, "agui/1.0", Dialect.V1, True),
    ],
)
def test_a_client_is_kept_as_a_word_that_tells_what_it_speaks_and_what_it_has_shown(
    reasoning: bytes, version: bytes, word: str, dialect: Dialect, takes: bool
) -> None:
    asked = parse_run_input(ASKED % (reasoning, version))
    assert (asked.client, asked.reasoning) == (word, bool(reasoning))
    assert dialect_of(word) is dialect
    assert take_reasoning([word]) is takes


def test_what_is_no_client_of_agui_is_answered_as_today_and_has_shown_nothing() -> None:
    for word in ("", "agui", "openai"):
        assert dialect_of(word) is Dialect.V1
        assert not take_reasoning([word])
