"""What a request asks for: the first rule that fits, of those that its messages, placed in the history, allow.

One sentence rules it: what the client shows its user is what the model sees, and nothing that had an effect is done
again unless the user asked for it.

1. It answers what waits: go on with all answers; what the user says beside them is appended.
2. It has a new message of the user behind all that the history has of the user: append.
3. It has one where the history goes on with another message of the user: a branch, from in front of that one.
4. It ends on a message of the user that says something else now: an edit.
5. It ends on a new system or developer message: append, and ask.
6. It brings nothing new: the same request again, or a wish for another answer. Where the run failed, it is gone on
   with; where something waits, or nobody has seen the end, the client is told what there is; else the answer is made
   anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent_core.errors import InvalidRequest
from agent_core.messages import Message
from agent_core.react.opening.align import RULES, Place, Placing
from agent_core.sessions.standing import History, Origin, PastRun
from agent_core.sessions.tree import Node

DONE = frozenset({"completed", "max_iterations", "approval", "waiting", "client_tools"})
"""How a run ended that has given what it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request beside its messages.

    - run_id: under which it came
    - arrived: when it was admitted, in milliseconds since the epoch; `waited` says that another run held the session
      then
    - seen: whether somebody has read the end of the run with this id since it was stored
    - decides: it has answers to what waits; `decided` says that it has answers which were taken before
    - again: it is known to be the same request as the last one
    - empty: it has neither messages nor answers, and only wants the agent to go on
    - places: where each message stands in the client's own list; empty where that is its index
    """

    run_id: str = ""
    arrived: int = 0
    waited: bool = False
    seen: Callable[[str], bool] = lambda run_id: False  # noqa: ARG005
    decides: bool = False
    decided: bool = False
    again: bool = False
    empty: bool = False
    places: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What the input changes. First the history is rewound to the message `rewind` (empty: to its beginning;
    None: not at all), then the `answers` to the client's calls and what settles the others are appended, and then
    `messages`, in this order.

    - told: nothing changes, and the client is told what there is
    - opens: a new turn begins: the user has said something new, or wants another answer; not where an earlier request
      is gone on with
    - says: it says something new, which ends the wait for what nobody has answered
    - ignored: messages that are passed over, each with its index in the request
    - origin: where the messages come from
    """

    rewind: str | None = None
    answers: dict[str, Message] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    told: bool = False
    opens: bool = False
    says: bool = False
    ignored: tuple[tuple[int, Message], ...] = ()
    origin: Origin = ""


def read_request(history: History, placing: Placing, asked: Asked) -> Intake:
    """What the request asks for. Raises InvalidRequest for answers that come with an edit."""
    return _Reader(history, placing, asked).read()


class _Reader:
    def __init__(self, history: History, placing: Placing, asked: Asked) -> None:
        self.history = history
        self.placing = placing
        self.asked = asked

    def read(self) -> Intake:
        placing = self.placing
        if placing.answers or self.asked.decides:
            return self._answer()
        if placing.news:
            return self._say()
        if placing.edit is not None:
            node = placing.edit.node
            return self._ask(_before(node), [placing.edit.message])
        rules = self._new_rules(placing.path)
        if rules and self._ends_on_rules():
            return self._intake(rewind=self._shown_again(), messages=rules, says=True)
        return self._repeat()

    def _answer(self) -> Intake:
        """Rule 1."""
        placing, asked = self.placing, self.asked
        if placing.edit is not None:
            param = f"messages[{asked.places[placing.edit.at] if asked.places else placing.edit.at}]"
            raise InvalidRequest(f"{param}: a message cannot be edited in one request with answers.", param)
        said = [message for _, message in placing.news]
        messages = [*self._new_rules(placing.path), *(placing.borrowed if said else ()), *said]
        rewind = self._shown_again()
        return self._intake(
            rewind=rewind, answers=placing.answers, messages=messages, opens=bool(said), says=bool(messages)
        )

    def _say(self) -> Intake:
        """Rules 2 and 3."""
        placing = self.placing
        said = [message for _, message in placing.news]
        behind = placing.behind(placing.furthest.node) if placing.furthest is not None else []
        other = next((node for node in behind if node.asks), None)
        if other is None or not self._branches(other):
            return self._ask(self._shown_again(), said)
        return self._ask(_before(other), said)

    def _branches(self, other: Node) -> bool:
        """Whether the request goes another way than the history does with this message of the user."""
        run = self.history.runs.get(other.run_id)
        if run is not None and self._was_under_way(run) and self._was_read(other.run_id, run):
            return False  # another reader has asked meanwhile, and has its answer
        return not (self.placing.furthest is not None and self.placing.furthest.by_text) or self._fits_by_text()

    def _fits_by_text(self) -> bool:
        """Whether the user's messages in front of the new ones are all known, and neighbours. Where only texts say
        so, anything else may be a coincidence."""
        placing = self.placing
        if placing.ignored:
            return False
        first = placing.news[0][0]
        asks = [node for node in placing.path if node.asks]
        steps = {id(node): step for step, node in enumerate(asks)}
        fit = [
            steps.get(id(each.node), -1) for each in placing.places if each.message.role == "user" and each.at < first
        ]
        return bool(fit) and fit == list(range(fit[0], fit[0] + len(fit)))

    def _repeat(self) -> Intake:
        """Rule 6."""
        asked, last, path = self.asked, self.placing.last, self.placing.path
        if asked.empty and path and path[-1].message.role == "user":
            return self._go_on()
        if last is None and not (asked.decided or self.placing.answered or asked.again or asked.empty):
            return self._told()
        role = last.message.role if last is not None else ""
        if last is not None and self._is_left(last.node):
            if role == "assistant":
                return self._told()
            run = self.history.runs.get(asked.run_id)
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
        asked, last_id = self.asked, next(reversed(self.history.runs), "")
        unread = run is not None and run.unread and not asked.seen(last_id)
        taken = asked.decided or (self.placing.answered and self.placing.last is None)
        return asked.run_id == last_id or unread or taken or asked.again

    def _waits(self) -> bool:
        return bool(self.history.pending or self.placing.waiting)

    def _was_under_way(self, run: PastRun) -> bool:
        """Whether the run had not ended when the request arrived."""
        arrived = self.asked.arrived
        return bool(arrived) and (run.ended_at > arrived or (self.asked.waited and run.ended_at == arrived))

    def _was_read(self, run_id: str, run: PastRun) -> bool:
        return not run.unread or self.asked.seen(run_id)

    def _told(self) -> Intake:
        return self._intake(told=True)

    def _anew(self, last: Place) -> Intake:
        """Another answer to this message."""
        if last.message.role == "user":
            return self._ask(last.node.message.id, [], of=last.node)
        path = self.placing.path if last.node.shown else self.history.tree.nodes(last.node)
        rules = self._new_rules(path[: path.index(last.node) + 1])
        return self._intake(rewind=last.node.last_id, messages=rules, opens=True)

    def _go_on(self) -> Intake:
        """From behind the last result, or the question: half an answer is made anew."""
        path = self.placing.path
        end = len(path)
        while end and path[end - 1].message.role == "assistant" and not path[end - 1].message.tool_calls:
            if path[end - 1].observed:
                break
            end -= 1
        rest = path[:end]
        rules = self._new_rules(rest)
        if rules and rest and rest[-1].asks:
            return self._intake(rewind=_before(rest[-1]), messages=[*rules, rest[-1].message])
        rewind = None if end == len(path) else rest[-1].last_id if rest else ""
        return self._intake(rewind=rewind, messages=rules)

    def _ask(self, rewind: str | None, said: Sequence[Message], of: Node | None = None) -> Intake:
        """Append what the user has said, or ask the question `of` anew, behind the message `rewind`."""
        path = self.placing.path if rewind is None else self._path_to(rewind)
        if of is not None:
            rules = self._new_rules(path)
            if not rules:
                return self._intake(rewind=rewind, opens=True)
            rewind, said, path = _before(of), [of.message], self._path_to(_before(of))
        return self._intake(
            rewind=rewind,
            messages=[*self._new_rules(path), *self.placing.borrowed, *said],
            opens=True,
            says=True,
        )

    def _path_to(self, message_id: str) -> list[Node]:
        node = self.history.tree.find(message_id)
        return [] if node is None else self.history.tree.nodes(node)

    def _shown_again(self) -> str | None:
        """The end of a path that was rewound away, to be shown again."""
        return self.placing.path[-1].last_id if self.placing.hidden else None

    def _ends_on_rules(self) -> bool:
        last = max((at for at, _ in self.placing.rules), default=-1)
        return bool(self.placing.rules) and last > max((each.at for each in self.placing.places), default=-1)

    def _new_rules(self, path: Sequence[Node]) -> list[Message]:
        """The system and developer messages of the request that this path does not end on already. They go by their
        texts: the longest beginning of the request's that equals the last ones of the path is not new."""
        given = [message for _, message in self.placing.rules]
        if not given:
            return []
        texts = [message.text for message in given]
        stored = [node.message.text for node in path if node.message.role in RULES][-len(texts) :]
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
    """The id of the last message in front of this one; empty where it is the first."""
    return node.parent.last_id if node.parent is not None else ""


def _overlap(texts: Sequence[str], stored: Sequence[str]) -> int:
    """How long the longest beginning of the one is that the other ends on, in linear time (Knuth, Morris, Pratt)."""
    numbers: dict[str, int] = {}
    pattern = [numbers.setdefault(text, len(numbers)) for text in texts]
    borders = [0]  # of each beginning of the pattern, the longest shorter one that it ends on
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
