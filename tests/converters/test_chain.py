"""The chain: the most specific claim, then the first in the list."""

from collections.abc import Sequence

from agent_core.events import AgentStart, Custom, Event, TextDelta, TextEnd
from converters.chain import Chain
from converters.wire import Frame

RUN = "r1"


class Naming:
    """Answers each event that it claims with a frame of its own name."""

    def __init__(self, name: str, *claims: type[Event], silent: bool = False) -> None:
        self.name = name
        self.claims = claims
        self.silent = silent
        self.seen: list[Event] = []

    def convert(self, event: Event) -> Sequence[Frame]:
        self.seen.append(event)
        return () if self.silent else (Frame(self.name, b""),)


class Progress(Custom, frozen=True):
    """A user's own kind of event."""


def kinds(chain: Chain, event: Event) -> list[str]:
    return [frame.kind for frame in chain.convert(event)]


def test_the_first_converter_in_the_list_wins() -> None:
    chain = Chain([Naming("mine", TextDelta), Naming("standard", TextDelta, TextEnd)])
    assert kinds(chain, TextDelta(run_id=RUN, text="a")) == ["mine"]
    assert kinds(chain, TextEnd(run_id=RUN)) == ["standard"]


def test_a_claim_of_the_class_itself_goes_before_a_claim_of_its_base() -> None:
    chain = Chain([Naming("all", Event), Naming("text", TextDelta)])
    assert kinds(chain, TextDelta(run_id=RUN, text="a")) == ["text"]
    assert kinds(chain, TextEnd(run_id=RUN)) == ["all"]


def test_a_subclass_goes_to_whoever_claims_its_nearest_base() -> None:
    chain = Chain([Naming("rest", Event), Naming("custom", Custom)])
    assert kinds(chain, Progress(run_id=RUN, name="n", value=1)) == ["custom"]


def test_the_last_one_takes_what_nobody_claimed() -> None:
    chain = Chain([Naming("text", TextDelta), Naming("rest", Event)])
    assert kinds(chain, AgentStart(run_id=RUN, agent="a")) == ["rest"]


def test_without_a_claim_nothing_comes_out() -> None:
    assert kinds(Chain([Naming("text", TextDelta)]), AgentStart(run_id=RUN, agent="a")) == []


def test_a_claim_that_emits_nothing_hides_the_event_from_the_rest() -> None:
    rest = Naming("rest", Event)
    chain = Chain([Naming("quiet", TextDelta, silent=True), rest])
    assert kinds(chain, TextDelta(run_id=RUN, text="a")) == []
    assert rest.seen == []


def test_an_answer_is_the_same_the_second_time() -> None:
    chain = Chain([Naming("custom", Custom), Naming("rest", Event)])
    event = Progress(run_id=RUN, name="n", value=1)
    assert kinds(chain, event) == kinds(chain, event) == ["custom"]


def test_two_readers_share_nothing() -> None:
    first, second = Naming("a", TextDelta), Naming("a", TextDelta)
    Chain([first]).convert(TextDelta(run_id=RUN, text="a"))
    Chain([second])
    assert (len(first.seen), len(second.seen)) == (1, 0)
