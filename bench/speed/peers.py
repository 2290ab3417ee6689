"""What other servers took. It was measured once, elsewhere, and is not measured by `make bench`."""

from bench.speed.tables import Table

MEASURED = "2026-11-30"
"""The day on which these figures first stood in docs/performance.md."""

_ROWS = """\
the official openai SDK, sse-starlette, no engine | 33 | 37 | 35 | | |
openai-agents behind a thin adapter | 42 | 49 | 48 | 5.1 | 38 s | 2.1 s
agno 3.1 | 63 | 63 | 65 | 5.5 | 45 s | 2.1 s
Microsoft agent-framework-ag-ui 1.7 | 69 | 77 | 85 | 6.2 | 76 s | 1.2 s
Strands | 71 | 131 | 86 | 27 | 53 s | 1.9 s
pydantic-ai 2.68 | 97 | 107 | 103 | 7.4 | 77 s | 1.6 s
LangGraph (ag-ui-langgraph, RAW off) | 113 | 124 | 115 | 25 | 22 of 500 finished | 1.9 s
Google ADK (ag-ui-adk) | 181 | 206 | 210 | 22 | 311 of 500 finished | 5.7 s
AgentScope (Python) | 279 | 298 | 283 | 16 | 57 of 500 finished | 2.7 s
a floor of aiohttp and sse-starlette on that machine | 4.1 | 4.3 | 9.7 | | 12 s | 0.5 s"""


def peers() -> Table:
    return Table(
        title="Public peers",
        text=f"As this page stated them on {MEASURED}; not measured anew. CPU ms per run of 200 chunks, each server"
        " with its own\nAG-UI adapter, on another machine of two shared cores, by the scripts before `make bench`"
        " (median of 3\nrounds; Python 3.12, one worker, uvloop, httptools). Compare them with the floor's row of that"
        ' machine, not with\nthe figures above. "500 streams": 500 at once, 50 ms a chunk, ideally 10 s.\n\n'
        "Where their time goes: models built per chunk by the SDK, a pydantic adapter per event, a RAW copy of every"
        " event, a\nclient per call, several task hops per chunk.",
        heads=("server", "T0c64", "R0c64", "T5c64", "fixed (1 chunk)", "500 streams", "start"),
        rows=tuple(tuple(cell.strip() for cell in line.split("|")) for line in _ROWS.splitlines()),
    )
