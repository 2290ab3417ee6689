"""What a run cost, as OpenAI's usage object."""

import pytest

from agent_core.usage import Usage
from converters.openai.usage import usage_of


def used(model: str = "m", **counts: int) -> Usage:
    return Usage(provider="p", model=model, **counts)


@pytest.mark.parametrize(
    ("usages", "counts"),
    [
        ([], (0, 0, 0)),
        ([used()], (0, 0, 0)),
        ([used(input_tokens=3, output_tokens=4, total_tokens=9)], (3, 4, 9)),
        ([used(input_tokens=3, output_tokens=4)], (3, 4, 7)),
        ([used(total_tokens=9)], (0, 0, 9)),
        (
            [used(input_tokens=3, output_tokens=4), used("n", input_tokens=1, output_tokens=1, total_tokens=2)],
            (4, 5, 9),
        ),
    ],
)
def test_the_counts_are_sums_over_all_models_and_always_integers(
    usages: list[Usage], counts: tuple[int, int, int]
) -> None:
    told = usage_of(usages)
    assert (told["prompt_tokens"], told["completion_tokens"], told["total_tokens"]) == counts
    assert all(type(each) is int for each in told.values())


def test_details_are_told_where_they_are_known() -> None:
    told = usage_of([used(cached_input_tokens=2, reasoning_tokens=0), used("n", cached_input_tokens=5), used("o")])
    assert told["prompt_tokens_details"] == {"cached_tokens": 7}
    assert told["completion_tokens_details"] == {"reasoning_tokens": 0}
    assert set(usage_of([used()])) == {"prompt_tokens", "completion_tokens", "total_tokens"}
