"""Where the messages of a request stand in the history.

A client sends the conversation as it shows it. Some of its messages are copies of ours, under our ids or under ids that
it made; some are new; some are old versions of messages that were edited since. To align the messages means to find,
for each one that is a copy, its node in the history.

Three things can tell, from the surest to the weakest:

1. The id of a message, if the client keeps ids (`own_ids`).
2. The ids of an assistant message's calls. A client that gives messages new ids keeps these, because results need them.
3. The text of a user message. A text may be said twice ("yes"), so it counts only between its neighbours: behind the
   nearest known message in front of it, and in front of the nearest behind it. `_place_by_text` goes from the last to
   the first and takes the latest fit each time, so that an equal text further up is left for an earlier message.

The user messages at the very end are never placed by text. "yes" said again there is a new "yes", unless the request is
known to have come before (`question`).

A message that cannot be placed is new if it stands behind all that can. Elsewhere it is passed over, and the client is
told so, because nobody can say what it would mean to insert it there.

The last known message also says which branch the client shows. Where that one was rewound away, the client looks at an
old branch, and the path goes there (`hidden`). Steps in front of the first question do not say so: all branches share
them.

All of this is linear in the messages of both sides. It must stay so: a transcript has up to thousands of them, and it
comes with each request. Hence the tables by id (`where`) and the bisection.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from agent_core.messages import Message, ToolCall
from agent_core.sessions.standing import History
from agent_core.sessions.tree import RULES, Node, open_calls_at
from agent_core.shortened import shows


class Place(NamedTuple):
    """A known message of the request, at the index `at`: a step of the path, or a result of one. `by_text`: only its
    text tells."""

    at: int
    node: Node
    message: Message
    by_text: bool = False


@dataclass(slots=True, kw_only=True)
class Placing:
    """What a request says of the history.

    - end: the end of the path that the client shows. Where its last known message was rewound away, it is that message,
      and `hidden` is set
    - places: the known messages, in the order of the request
    - furthest: the last of them behind the beginning of the first question, if any
    - news: the user's new messages in order, each with its index
    - borrowed: what other agents of the session have said behind all that is known
    - rules: the system and developer messages
    - waiting: the client's open calls in order; `answers`: its results for them, each under its call's id
    - answered: some tool message answers a call that has its result already
    - edit: the message that the request ends on, if it is known and says something else now
    - ignored: the user's messages that are passed over, each with its index
    """

    end: Node | None
    hidden: bool = False
    places: list[Place] = field(default_factory=list)
    furthest: Place | None = None
    news: list[tuple[int, Message]] = field(default_factory=list)
    borrowed: list[Message] = field(default_factory=list)
    rules: list[tuple[int, Message]] = field(default_factory=list)
    waiting: tuple[ToolCall, ...] = ()
    answers: dict[str, Message] = field(default_factory=dict)
    answered: bool = False
    edit: Place | None = None
    ignored: list[tuple[int, Message]] = field(default_factory=list)

    @property
    def last(self) -> Place | None:
        """The known message that the request ends on."""
        return self.places[-1] if self.places else None

    @property
    def path(self) -> Iterator[Node]:
        """The path, from its end."""
        node = self.end
        while node is not None:
            yield node
            node = node.parent

    def behind(self, node: Node) -> list[Node]:
        """What stands behind the node on the path, from the end. Empty if the node is not on it."""
        found: list[Node] = []
        for each in self.path:
            if each is node:
                return found
            if each.step < node.step:
                break
            found.append(each)
        return []


def place(
    history: History,
    messages: Sequence[Message],
    clients: Callable[[Sequence[ToolCall]], tuple[ToolCall, ...]],
    *,
    own_ids: bool = True,
    question: Node | None = None,
) -> Placing:
    """Place the messages. `clients` tells which of the open calls at the end of the conversation wait for the client.

    Without `own_ids`, the messages' ids are not the client's and say nothing. `question` is the question that is known
    to come again: then nothing that the user says is new.
    """
    return _Placer(history, messages, own_ids, question).place(clients)


class _Placer:
    def __init__(self, history: History, messages: Sequence[Message], own_ids: bool, question: Node | None) -> None:
        self.history = history
        self.tree = history.tree
        self.messages = messages
        self.own_ids = own_ids
        self.question = question
        self.known: dict[int, Place] = {}
        self.shown_again: frozenset[int] | None = None  # the nodes of a hidden path, if the client shows one
        self.answering: set[int] = set()  # the client's answers
        self.again = _said_again(messages) if own_ids else {}
        self.users = [at for at, each in enumerate(messages) if each.role == "user" and at not in self.again]

    def place(self, clients: Callable[[Sequence[ToolCall]], tuple[ToolCall, ...]]) -> Placing:
        self._place_by_id()
        found = Placing(end=self.tree.tail)
        last = self._shown_last()
        if last is not None and not last.shown:
            found.end, found.hidden = last, True
            self._show(self.tree.nodes(last))
        found.waiting = clients(open_calls_at(found.end))
        self._take_results(found)
        by_id = bool(self.known)
        self._place_by_text(found, by_id)
        found.places = sorted(self.known.values(), key=_at)
        found.rules = [(at, each) for at, each in enumerate(self.messages) if each.role in RULES]
        found.furthest = next((each for each in reversed(found.places) if self._step(each.node, asked=True) >= 0), None)
        self._take_new(found, by_id)
        self._find_edit(found)
        return found

    def _place_by_id(self) -> None:
        """Place the messages of the user and the model whose ids tell, and the answers whose calls do. Nearly all
        messages of a long conversation are placed here, so this does little for each."""
        known, again, find = self.known, self.again, self.tree.find if self.own_ids else _nobody
        for at, message in enumerate(self.messages):
            role = message.role
            if (role == "user" or role == "assistant") and at not in again:
                node = find(message.id)
                if node is None or node.message.role != role or node.message.id != message.id:
                    node = self._of_calls(message)
                if node is not None:
                    known[at] = Place(at, node, message)

    def _of_calls(self, message: Message) -> Node | None:
        calls = (self.tree.find_call(call.id) for call in message.tool_calls) if message.role == "assistant" else ()
        return next((node for node in calls if node is not None), None)

    def _shown_last(self) -> Node | None:
        """The last message that the client shows, behind what is in front of the first question."""
        ends = reversed(self.known.values())  # they were placed in order, and no results yet
        return next((each.node for each in ends if each.node.asked or not each.node.shown), None)

    def _show(self, path: list[Node]) -> None:
        """The path is shown again: of two versions of a message its own counts now."""
        self.shown_again = frozenset(map(id, path))
        versions = {node.message.id: node for node in path}
        for at, each in self.known.items():
            node = versions.get(each.message.id)
            if node is not None and node.message.role == each.message.role:
                self.known[at] = Place(at, node, each.message)

    def _step(self, node: Node, *, asked: bool = False) -> int:
        """The node's place on the path, -1 if it is not on it. With `asked`, only behind the first question's
        beginning."""
        on = node.shown if self.shown_again is None else id(node) in self.shown_again
        return node.step if on and (node.asked or not asked) else -1

    def _take_results(self, found: Placing) -> None:
        """Take the tool messages. Two kinds count: an answer to a call that waits for the client; and a result that we
        have, if it stands behind its call with only results between."""
        if not any(message.role == "tool" for message in self.messages):
            return
        waiting = {call.id for call in found.waiting}
        asking: Node | None = None
        for at, message in enumerate(self.messages):
            if message.role != "tool":
                if at in self.known:
                    asking = self.known[at].node
                elif message.role != "assistant":
                    asking = None
                continue
            call_id = message.tool_call_id or ""
            node = self.tree.find_call(call_id)
            if node is None:
                continue
            if call_id in waiting:
                found.answers.setdefault(call_id, message)
                self.answering.add(at)
            elif node.has_result(call_id):
                if node is asking:
                    self.known[at] = Place(at, node, message)
                else:
                    found.answered = True

    def _place_by_text(self, found: Placing, by_id: bool) -> None:
        """Place the user messages whose ids say nothing. See the top of this file."""
        run = self._closing_run()
        if self.question is not None:
            self.known.update((at, Place(at, self.question, self.messages[at], by_text=True)) for at in self.users[-1:])
        elif not by_id and self.own_ids and self._has_failed():
            asked = self.history.question
            text = asked.message.text.strip() if asked is not None else ""
            again = min((at for at in run if self.messages[at].text.strip() == text), default=None)
            if asked is not None and again is not None:
                self.known[again] = Place(again, asked, self.messages[again], by_text=True)
        if any(at not in self.known and at not in run for at in self.users):
            self._fit_texts(found, run)

    def _fit_texts(self, found: Placing, run: Collection[int]) -> None:
        asks: dict[str, list[Node]] = {}  # from the last to the first
        for node in found.path:
            if node.asks:
                asks.setdefault(node.message.text.strip(), []).append(node)
        floors = self._floors()
        ceiling = 0 if found.end is None else found.end.step + 1
        for at in range(len(self.messages) - 1, -1, -1):
            if at in self.known:
                step = self._step(self.known[at].node)
                ceiling = min(ceiling, step) if step >= 0 else ceiling
            elif self.messages[at].role == "user" and at not in run and at not in self.again:
                fitting = asks.get(self.messages[at].text.strip(), [])
                fit = bisect_right(fitting, -ceiling, key=lambda node: -node.step)
                if fit < len(fitting) and fitting[fit].step > floors[at]:
                    ceiling = fitting[fit].step
                    self.known[at] = Place(at, fitting[fit], self.messages[at], by_text=True)

    def _floors(self) -> list[int]:
        """For each message the step of the nearest known message in front of it, else -1."""
        floors, floor = [], -1
        for at in range(len(self.messages)):
            floors.append(floor)
            if at in self.known and (step := self._step(self.known[at].node)) >= 0:
                floor = step
        return floors

    def _closing_run(self) -> frozenset[int]:
        """The user messages at the request's end, or else the last user message. Only an id places these."""
        run: list[int] = []
        for at in range(len(self.messages) - 1, -1, -1):
            if self.messages[at].role == "user":
                run += [at] if at not in self.again else []
            elif self.messages[at].role not in RULES:
                break
        return frozenset(run or self.users[-1:])

    def _has_failed(self) -> bool:
        run = self.history.run
        return run is not None and run.status in ("", "failed")

    def _take_new(self, found: Placing, by_id: bool) -> None:
        """Collect what the user and other agents have said behind all that is known."""
        behind = found.furthest.at if found.furthest is not None else -1
        if not by_id:
            said = [at for at, each in enumerate(self.messages) if each.role in ("assistant", "tool")]
            behind = max(behind, said[-1] if said else -1)
        last = self.users[-1] if self.users else -1
        others = self.history.others if self.own_ids else {}
        for at in [at for at in range(len(self.messages)) if at not in self.known]:
            message = self.messages[at]
            if message.role not in ("user", "assistant"):
                continue
            theirs = others.get(message.id)
            if at in self.again:
                if not shows(message, self.messages[self.again[at]]):
                    found.ignored.append((at, message))
            elif theirs is not None and theirs.role == message.role and at > behind and at != last:
                found.borrowed += _words_of(theirs)
            elif message.role == "user" and at > behind and self.question is None:
                found.news.append((at, message))
            elif message.role == "user" and self.question is None:
                found.ignored.append((at, message))

    def _find_edit(self, found: Placing) -> None:
        end = max([*self.known, *self.answering, *(at for at, _ in found.news)], default=-1)
        for each in found.places:
            if each.by_text or each.message.role != "user" or each.message.content == each.node.message.content:
                continue
            if shows(each.message, each.node.message):
                continue
            if each.at == end:
                found.edit = each
            else:
                found.ignored.append((each.at, each.message))


def _words_of(message: Message) -> list[Message]:
    """What another agent's message says. Its calls are not this agent's, so of an answer only the text counts."""
    if message.role == "user":
        return [message]
    return [Message(id=message.id, role="assistant", content=message.text)] if message.text else []


def _nobody(message_id: str) -> None:  # the signature of `Tree.find`
    """No id tells anything."""


_at = itemgetter(0)


def _said_again(messages: Sequence[Message]) -> dict[int, int]:
    """The user messages whose id came before in the request, each with the index of the first one. The first counts."""
    if len({message.id for message in messages}) == len(messages):
        return {}
    first: dict[str, int] = {}
    places = ((at, first.setdefault(each.id, at)) for at, each in enumerate(messages))
    return {at: before for at, before in places if before != at and messages[at].role == "user"}
