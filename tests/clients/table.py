"""Prints pytest's report of these tests as a table: client, what was tried, how it went.

python tests/clients/table.py REPORT.xml
"""

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

CLIENTS = {
    "test_agui_node": "@ag-ui/client",
    "test_sessions_node": "@ag-ui/client",
    "test_reattach_node": "@ag-ui/client",
    "test_restarts_node": "@ag-ui/client",
    "test_agui_validate": "ag-ui-validate",
    "test_openai_python": "openai-python",
    "test_openai_node": "openai-node",
    "test_ai_sdk": "AI SDK",
    "test_langchain": "LangChain ChatOpenAI",
    "test_llm": "llm",
    "test_curl": "curl",
    "test_pages_headers": "a page",
}
IN_A_PAGE = {"copilotkit": "CopilotKit", "assistant_ui": "assistant-ui"}
"""Clients that share their tests, which have their names in them."""


def rows_of(report: str) -> list[tuple[str, str, str]]:
    """Client, what was tried, and passed, failed or skipped, for each test of a JUnit report."""
    return [
        (_client(case.get("classname", ""), case.get("name", "")), _sentence(case.get("name", "")), _outcome(case))
        for case in ElementTree.fromstring(report).iter("testcase")
    ]


def table_of(rows: list[tuple[str, str, str]]) -> str:
    """The rows as lines of aligned columns, and one line that counts the outcomes."""
    wide = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    lines = [f"{client:{wide[0]}}  {what:{wide[1]}}  {outcome}" for client, what, outcome in rows]
    counts = Counter(outcome for _, _, outcome in rows)
    return "\n".join([*lines, ", ".join(f"{counts[each]} {each}" for each in ("passed", "failed", "skipped"))])


def _client(classname: str, name: str) -> str:
    module = classname.rpartition(".")[2]
    return CLIENTS.get(module) or next((IN_A_PAGE[each] for each in IN_A_PAGE if each in name), module)


def _sentence(name: str) -> str:
    name, bracket, case = name.removeprefix("test_").partition("[")
    return name.replace("_", " ") + (f" ({case.removesuffix(']')})" if bracket else "")


def _outcome(case: ElementTree.Element) -> str:
    found = {child.tag for child in case}
    if found & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in found else "passed"


def main() -> None:
    report = Path(sys.argv[1])
    if not report.exists():
        raise SystemExit("There is no report: the tests did not run.")
    sys.stdout.write(table_of(rows_of(report.read_text())) + "\n")


if __name__ == "__main__":
    main()
