"""What a request asks for, told by its messages and their places in the history. The first rule that fits counts.

Two things hold in all of them. The model sees what the client shows its user. And nothing that had an effect is done
again, unless the user asked for it.

1. The request answers calls or interrupts that wait: go on with all answers, and append what the user says beside them.
2. It has a new message behind all messages of the user in the history: append it.
3. It has a new message at a place where the history goes on with another message of the user: begin a branch in front
   of that one.
4. It ends on a known message of the user with another text: an edit.
5. It ends on a new system or developer message: append it, and ask the model.
6. It brings nothing new. It is the same request again, or a wish for another answer. If the run failed, go on with it.
   If something waits, or nobody has seen the end, tell the client what there is. Else make another answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from agent_core.errors import InvalidRequest
from agent_core.messages import Message
from agent_core.react.opening.align import Place, Placing
from agent_core.sessions.standing import History, Origin, PastRun
from agent_core.sessions.tree import Node

DONE = frozenset({"completed", "max_iterations", "approval", "waiting", "client_tools"})
"""The statuses of runs that have done what they were asked for, or wait for somebody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """A request without its messages.

    - run_id: the id under which it came
    - arrived: when it was admitted, in milliseconds since the epoch
    - waited: another run held the session at that time
    - seen: tells whether somebody has read the end of the run with this id since it was stored
    - decides: it has answers to open interrupts
    - decided: it has answers to known interrupts, also to those that were answered before
    - again: it is known to be the same request as the last one
    - empty: it has no messages and no answers, and only wants the agent to go on
    - places: each message's index in the client's own list; empty if the indexes are the same
    """

    run_id: str
    arrived: int
    waited: bool
    seen: Callable[[str], bool]
    decides: bool
    decided: bool
    again: bool
    empty: bool
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """The changes that the input makes, in this order:

    - rewind: the message that the history is rewound to; empty for its beginning, None for no rewind
    - answers: results of the client's calls; they are appended with the results that settle other calls
    - messages: these are appended then

    And:

    - told: nothing changes, and the client is told what there is
    - opens: a new turn begins, because the user has said something new or wants another answer
    - says: the user has said something new, so open interrupts no longer wait
    - ignored: messages that are passed over, each with its index in the request
    - origin: the origin of the messages
    """

    rewind: str | None = None
    answers: dict[str, Message] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    told: bool = False
    opens: bool = False
    says: bool = False
    ignored: tuple[tuple[int, Message], ...] = ()
    origin: Origin = ""


def read_request(history: History, placing: Placing, around: Circumstances) -> Intake:
    """Find the rule. Raises InvalidRequest for answers that come with an edit."""
    return _Reader(history, placing, around).read()


class _Reader:
    def __init__(self, history: History, placing: Placing, around: Circumstances) -> None:
        self.history = history
        self.placing = placing
        self.around = around

    def read(self) -> Intake:
        placing = self.placing
        if placing.answers or self.around.decides:
            return self._answer()
        if placing.news:
            return self._say()
        if placing.edit is not None:
            node = placing.edit.node
            return self._ask(_before(node), [placing.edit.message])
        rules = self._new_rules(placing.end)
        if rules and self._ends_on_rules():
            return self._intake(rewind=self._shown_again(), messages=rules, says=True)
        return self._repeat()

    def _answer(self) -> Intake:
        """Rule 1."""
        placing, around = self.placing, self.around
        if placing.edit is not None:
            param = f"messages[{around.places[placing.edit.at] if around.places else placing.edit.at}]"
            raise InvalidRequest(f"{param}: a message cannot be edited in one request with answers.", param)
        said = [message for _, message in placing.news]
        messages = [*self._new_rules(placing.end), *(placing.borrowed if said else ()), *said]
        rewind = self._shown_again()
        return self._intake(
            rewind=rewind, answers=placing.answers, messages=messages, opens=bool(said), says=bool(messages)
        )

    def _say(self) -> Intake:
        """Rules 2 and 3."""
        placing = self.placing
        said = [message for _, message in placing.news]
        behind = placing.behind(placing.furthest.node) if placing.furthest is not None else []
        other = next((node for node in reversed(behind) if node.asks), None)
        if other is None or not self._branches(other):
            return self._ask(self._shown_again(), said)
        return self._ask(_before(other), said)

    def _branches(self, other: Node) -> bool:
        """Whether the request begins a branch in front of this message of the user."""
        run = self.history.runs.get(other.run_id)
        if run is not None and self._was_under_way(run) and self._was_read(other.run_id, run):
            return False  # another reader has asked meanwhile, and has its answer
        return not (self.placing.furthest is not None and self.placing.furthest.by_text) or self._fits_by_text()

    def _fits_by_text(self) -> bool:
        """Whether the user's messages in front of the new ones are all known, and neighbours in the history. If only
        texts tell that they are known, anything less may be a coincidence."""
        placing = self.placing
        if placing.ignored:
            return False
        first = placing.news[0][0]
        asks = [node for node in placing.path if node.asks]
        steps = {id(node): step for step, node in enumerate(reversed(asks))}
        fit = [
            steps.get(id(each.node), -1) for each in placing.places if each.message.role == "user" and each.at < first
        ]
        return bool(fit) and fit == list(range(fit[0], fit[0] + len(fit)))

    def _repeat(self) -> Intake:
        """Rule 6."""
        around, last, end = self.around, self.placing.last, self.placing.end
        if around.empty and end is not None and end.message.role == "user":
            return self._go_on()
        if last is None and not (around.decided or self.placing.answered or around.again or around.empty):
            return self._told()
        role = last.message.role if last is not None else ""
        if last is not None and self._is_left(last.node):
            if role == "assistant":
                return self._told()
            run = self.history.runs.get(around.run_id)
            return self._told() if run is not None and run.status not in ("", "failed") else self._anew(last)
        run = self.history.run
        if run is not None and self._was_under_way(run):
            return self._told() if run.status in DONE else self._go_on()
        if (run is None and role != "assistant") or (run is not None and run.status not in DONE):
            return self._go_on()
        if last is None or role == "assistant" or self._waits() or self._is_told(run):
            return self._told()
        return self._anew(last)

    def _is_left(self, node: Node) -> bool:
        """Whether the history has left this message behind."""
        return not node.shown or any(each.asks for each in self.placing.behind(node))

    def _is_told(self, run: PastRun | None) -> bool:
        around, last_id = self.around, next(reversed(self.history.runs), "")
        unread = run is not None and run.unread and not around.seen(last_id)
        taken = around.decided or (self.placing.answered and self.placing.last is None)
        return around.run_id == last_id or unread or taken or around.again

    def _waits(self) -> bool:
        return bool(self.history.pending or self.placing.waiting)

    def _was_under_way(self, run: PastRun) -> bool:
        """Whether the run had not ended when the request arrived."""
        arrived = self.around.arrived
        return bool(arrived) and (run.ended_at > arrived or (self.around.waited and run.ended_at == arrived))

    def _was_read(self, run_id: str, run: PastRun) -> bool:
        return not run.unread or self.around.seen(run_id)

    def _told(self) -> Intake:
        return self._intake(told=True)

    def _anew(self, last: Place) -> Intake:
        """Another answer to this message."""
        if last.message.role == "user":
            return self._ask(last.node.message.id, [], of=last.node)
        return self._intake(rewind=last.node.last_id, messages=self._new_rules(last.node), opens=True)

    def _go_on(self) -> Intake:
        """Go on behind the last result, or behind the question. An answer that was cut off is made again."""
        end = self.placing.end
        while end is not None and end.message.role == "assistant" and not (end.message.tool_calls or end.observed):
            end = end.parent
        rules = self._new_rules(end)
        if rules and end is not None and end.asks:
            return self._intake(rewind=_before(end), messages=[*rules, end.message])
        rewind = None if end is self.placing.end else "" if end is None else end.last_id
        return self._intake(rewind=rewind, messages=rules)

    def _ask(self, rewind: str | None, said: Sequence[Message], of: Node | None = None) -> Intake:
        """Behind the message `rewind`, append what the user has said, or ask the question `of` again."""
        end = self.placing.end if rewind is None else self.history.tree.find(rewind)
        if of is not None:
            rules = self._new_rules(end)
            if not rules:
                return self._intake(rewind=rewind, opens=True)
            rewind, said, end = _before(of), [of.message], of.parent
        return self._intake(
            rewind=rewind,
            messages=[*self._new_rules(end), *self.placing.borrowed, *said],
            opens=True,
            says=True,
        )

    def _shown_again(self) -> str | None:
        """The end of a hidden path that must be shown again, or None."""
        return self.placing.end.last_id if self.placing.hidden and self.placing.end is not None else None

    def _ends_on_rules(self) -> bool:
        last = max((at for at, _ in self.placing.rules), default=-1)
        return bool(self.placing.rules) and last > max((each.at for each in self.placing.places), default=-1)

    def _new_rules(self, end: Node | None) -> list[Message]:
        """The request's new system and developer messages. They are compared by their texts: the longest beginning of
        the request's that equals the last ones of the path to this node is not new."""
        given = [message for _, message in self.placing.rules]
        if not given:
            return []
        texts = [message.text for message in given]
        stored = [] if end is None else [node.message.text for node in islice(end.rules(), len(texts))][::-1]
        return given[_overlap(texts, stored) :]

    def _intake(
        self,
        *,
        rewind: str | None = None,
        answers: dict[str, Message] | None = None,
        messages: list[Message] | None = None,
        told: bool = False,
        opens: bool = False,
        says: bool = False,
    ) -> Intake:
        return Intake(
            rewind=rewind,
            answers=answers or {},
            messages=messages or [],
            told=told,
            opens=opens,
            says=says,
            ignored=tuple(self.placing.ignored),
        )


def _before(node: Node) -> str:
    """The id of the last message in front of this one, empty if it is the first."""
    return node.parent.last_id if node.parent is not None else ""


def _overlap(texts: Sequence[str], stored: Sequence[str]) -> int:
    """The length of the longest beginning of `texts` that `stored` ends on, in linear time (Knuth, Morris, Pratt)."""
    numbers: dict[str, int] = {}
    pattern = [numbers.setdefault(text, len(numbers)) for text in texts]
    borders = [0]  # for each beginning of the pattern: the length of the longest shorter beginning that it ends on
    for number in pattern[1:]:
        borders.append(_step(pattern, borders, borders[-1], number))
    known = 0
    for text in stored:
        known = _step(pattern, borders, borders[known - 1] if known == len(pattern) else known, numbers.get(text, -1))
    return known


def _step(pattern: Sequence[int], borders: Sequence[int], known: int, number: int) -> int:
    while known and pattern[known] != number:
        known = borders[known - 1]
    return known + (pattern[known] == number)
