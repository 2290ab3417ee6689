"""The plain page and the curl line."""

import json
import shlex

from agent_core.agent import Agent
from app.agents import Roster
from app.routes.page import POLICY, curl_line, page


def test_the_curl_line_survives_a_shell() -> None:
    words = shlex.split(curl_line("http://127.0.0.1:8000/", "one", question="what's up?"))
    assert words[:3] == ["curl", "-N", "http://127.0.0.1:8000/agui/one"]
    body = json.loads(words[words.index("-d") + 1])
    [message] = body["messages"]
    assert (message["role"], message["content"]) == ("user", "what's up?")
    assert set(body) == {"threadId", "runId", "messages"}
    assert curl_line("http://h") != curl_line("http://h"), "a message id that the thread knows is passed over"


def test_the_curl_line_names_the_default_agent_by_leaving_it_out_and_sends_a_key_where_one_is_needed() -> None:
    words = shlex.split(curl_line("http://h", keyed=True))
    assert words[2] == "http://h/agui"
    assert "Authorization: Bearer $OSTINATO_API_KEY" in words
    assert "Authorization" not in curl_line("http://h")


def test_what_agents_are_called_and_say_is_escaped() -> None:
    roster = Roster((Agent("one", "fake:fake", description="<script>alert(1)</script> & more"),))
    html = page('http://h"><b>', roster, keyed=False)
    assert "<script" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in html


def test_the_page_loads_nothing_from_elsewhere() -> None:
    html = page("http://h", Roster((Agent("one", "fake:fake"),)), keyed=False)
    assert not any(mark in html for mark in ("src=", "href=", "@import", "url("))
    assert "default-src 'none'" in POLICY
    assert "script-src" not in POLICY
