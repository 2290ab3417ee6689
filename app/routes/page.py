"""The page at `/`: plain HTML without scripts or outside assets, with a curl line that the command line shows too."""

import shlex
from html import escape
from secrets import token_hex

import orjson

from app.agents import Roster

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The page's Content-Security-Policy: nothing but its own style."""

ENDPOINTS = (
    ("POST /agui", "run the default agent; the answer is a stream of AG-UI events"),
    ("POST /agui/{agent}", "run the agent of that name"),
    ("POST /v1/chat/completions", "the same agents for OpenAI's SDKs: base URL /v1, the model is the agent's name"),
    ("GET /v1/models", "the agents, as OpenAI lists its models"),
    ("GET /agents", "the agents, their models and tools"),
    ("GET /healthz", "whether the process lives"),
    ("GET /readyz", "whether new runs are taken"),
)

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
code, pre { font: 14px/1.45 ui-monospace, monospace; background: #f3f3f0; border-radius: 4px; }
code { padding: .1rem .3rem; }
pre { padding: .8rem; overflow-x: auto; }
td { padding: .2rem 1rem .2rem 0; vertical-align: top; }
@media (prefers-color-scheme: dark) { body { background: #1b1b1b; color: #ddd; } code, pre { background: #2a2a28; } }
"""


def curl_line(base: str, agent: str | None = None, *, keyed: bool = False, question: str = "What time is it?") -> str:
    """A command that streams one run; `base` is the server's URL, `agent` None for the default agent."""
    url = base.rstrip("/") + ("/agui" if agent is None else f"/agui/{agent}")
    # New ids each time: a message that its thread knows is skipped.
    some = token_hex(3)
    message = {"id": f"m-{some}", "role": "user", "content": question}
    body = orjson.dumps({"threadId": f"t-{some}", "runId": f"r-{some}", "messages": [message]}).decode()
    key = ' -H "Authorization: Bearer $OSTINATO_API_KEY"' if keyed else ""
    return f"curl -N {shlex.quote(url)} -H 'Content-Type: application/json'{key} -d {shlex.quote(body)}"


def page(base: str, roster: Roster, *, keyed: bool) -> str:
    """The whole page as HTML; every name and text in it is escaped."""
    endpoints = "".join(f"<tr><td><code>{escape(e)}</code></td><td>{escape(what)}</td></tr>" for e, what in ENDPOINTS)
    agents = "".join(
        f"<h3>{escape(agent.name)}</h3><p>{escape(agent.description)}</p>"
        f"<pre>{escape(curl_line(base, agent.name, keyed=keyed))}</pre>"
        for agent in roster.agents
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Ostinato</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body><h1>Ostinato</h1>"
        "<p>An agent server: a ReAct loop, streamed step by step as AG-UI.</p>"
        f"<h2>Endpoints</h2><table>{endpoints}</table>"
        f"<h2>Agents</h2><p>The default agent is <code>{escape(roster.default.name)}</code>.</p>{agents}"
        "</body></html>"
    )
