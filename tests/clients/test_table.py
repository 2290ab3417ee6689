"""The table that `make clients` prints."""

from tests.clients.table import rows_of, table_of

REPORT = """<testsuites><testsuite>
<testcase classname="tests.clients.test_llm" name="test_it_works[whole]" time="1" />
<testcase classname="tests.clients.test_curl" name="test_it_fails"><failure message="no">x</failure></testcase>
<testcase classname="tests.clients.test_other" name="test_it_breaks"><error message="no">x</error></testcase>
<testcase classname="tests.clients.test_pages" name="test_it_runs[deny-assistant_ui]" time="1" />
<testcase classname="tests.clients.test_ai_sdk" name="test_it_waits"><skipped message="none">x</skipped></testcase>
</testsuite></testsuites>"""


def test_each_test_is_a_row_with_its_client_its_sentence_and_its_outcome() -> None:
    assert rows_of(REPORT) == [
        ("llm", "it works (whole)", "passed"),
        ("curl", "it fails", "failed"),
        ("test_other", "it breaks", "failed"),
        ("assistant-ui", "it runs (deny-assistant_ui)", "passed"),
        ("AI SDK", "it waits", "skipped"),
    ]


def test_the_columns_are_aligned_and_the_outcomes_counted() -> None:
    lines = table_of(rows_of(REPORT)).splitlines()
    assert lines[0] == "llm           it works (whole)             passed"
    assert lines[1] == "curl          it fails                     failed"
    assert lines[-1] == "2 passed, 2 failed, 1 skipped"


def test_no_tests_make_a_table_of_none() -> None:
    assert table_of(rows_of("<testsuites />")) == "0 passed, 0 failed, 0 skipped"
