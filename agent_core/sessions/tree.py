"""One agent's messages in a session: a tree of all that was ever said, and the one path in it that is shown.

A session may have thousands of messages, and each run looks at it. So what a run needs of the path is found from its
end, without a walk over all of it.

A new message stands behind the last message of the shown path. The results of calls are no nodes of their own. They
belong to the message that made the calls, in the order of the calls, on every path that shows it. So a rewind never
takes a call's result away and leaves the call.

    u1 ─ a1 ─ u2 ─ a2          a rewind has hidden u2, and can show it again
          └── u3 ─ a3
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from agent_core.messages import Message, ToolCall
from agent_core.pairing import open_calls

RULES = frozenset({"system", "developer"})
"""Roles of messages that are no part of the conversation's turns."""

MOST_VERSIONS = 100
"""If several calls have the same id, only so many of the latest are searched for one that is shown."""


class Node:
    """One message with the results of its calls. `parent` is the node in front of it.

    - step: how many nodes are in front of it
    - asked: it is a question, or there is one in front of it
    - run_id, seq: the run that it came with, and its entry's number, 0 while that is not known
    - observed: it was appended without reasoning, and no client shows it
    - shown: whether it is on the path that is shown now; `left` is the number of the entry that hid it last
    - next_seq: the entry's number of the node that was shown behind it last, or None. It is not the node itself: two
      nodes that refer to each other would keep a whole conversation in memory until the garbage collector runs
    """

    __slots__ = (
        "_calling",
        "_order",
        "_places",
        "_ruling",
        "asked",
        "left",
        "message",
        "next_seq",
        "observed",
        "parent",
        "results",
        "run_id",
        "seq",
        "shown",
        "step",
    )

    def __init__(self, message: Message, parent: "Node | None", run_id: str, seq: int, observed: bool) -> None:
        self.message = message
        self.parent = parent
        self.results: Sequence[Message] = ()  # most have none; an empty list would only cost the garbage collector
        self.run_id = run_id
        self.seq = seq
        self.observed = observed
        self.shown = True
        self.left = 0
        self.next_seq: int | None = None
        self._order: dict[str, int] | None = None
        self._places: Sequence[int] = ()
        self.step: int = 0 if parent is None else parent.step + 1
        self.asked: bool = self.asks or (parent is not None and parent.asked)
        # They name nodes in front of this one only: a node that named itself would be a circle.
        self._calling = None if parent is None else parent.calling
        self._ruling = None if parent is None else parent.ruling

    @property
    def calling(self) -> "Node | None":
        """The nearest node with tool calls, up from here: this one or one in front of it."""
        return self if self.message.tool_calls else self._calling

    @property
    def ruling(self) -> "Node | None":
        """The nearest system or developer message, up from here."""
        return self if self.message.role in RULES else self._ruling

    def rules(self) -> "Iterator[Node]":
        """The system and developer messages of the path to this node, from its end."""
        node = self.ruling
        while node is not None:
            yield node
            node = node._ruling

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the message that have no result."""
        done = {each.tool_call_id for each in self.results}
        return tuple(call for call in self.message.tool_calls if call.id not in done)

    @property
    def is_paired(self) -> bool:
        """Whether each call has exactly one result, and nothing else is here."""
        calls = self.message.tool_calls
        if not calls:
            return self.message.role != "tool"
        return len(self._places) == len(calls) == len(set(self._places) - {len(calls)})

    @property
    def asks(self) -> bool:
        """Whether clients show it as a question of the user."""
        return self.message.role == "user" and not self.observed

    @property
    def last_id(self) -> str:
        """The id of the last result here, or of the message if it has no results."""
        return self.results[-1].id if self.results else self.message.id

    def take(self, result: Message) -> bool:
        """Add the result of one of its calls, in the order of the calls. A result without a call here goes to the end.
        Returns whether it stands behind all others."""
        if self._order is None:
            self._order = {call.id: place for place, call in enumerate(self.message.tool_calls)}
        place = self._order.get(result.tool_call_id or "", len(self._order))
        at = bisect_right(self._places, place)
        places, results = self._lists()
        places.insert(at, place)
        results.insert(at, result)
        return at == len(results) - 1

    def has_result(self, call_id: str) -> bool:
        """Whether this call of the message has a result."""
        place = -1 if self._order is None else self._order.get(call_id, -1)
        at = bisect_left(self._places, place)
        return place >= 0 and at < len(self._places) and self._places[at] == place

    def _lists(self) -> tuple[list[int], list[Message]]:
        if isinstance(self._places, list) and isinstance(self.results, list):
            return self._places, self.results
        places, results = list(self._places), list(self.results)
        self._places, self.results = places, results
        return places, results


class Tree:
    """All nodes, and the path that is shown. `message_ids` are the ids of the messages on that path.

    A tree that begins with messages that are `shown` has no nodes for them: it can only tell them.
    """

    __slots__ = ("_by_call", "_by_id", "_same", "_shown", "_start", "_tail", "_unpaired", "message_ids")

    def __init__(self, shown: Iterable[Message] = ()) -> None:
        self.message_ids: set[str] = set()
        self._by_id: dict[str, Node] = {}
        self._by_call: dict[str, Node] = {}
        self._same: dict[str, list[Node]] = {}  # calls that share an id, as in conversations from outside
        self._start: Node | None = None  # the first node of the path that was shown last
        self._tail: Node | None = None
        self._unpaired = 0  # nodes of the shown path
        self._shown: list[Message] | None = list(shown)  # None if it must be put together again

    @property
    def messages(self) -> list[Message]:
        """The messages that are shown, in order. The caller must not change the list."""
        if self._shown is None:
            self._shown = messages_of(self.nodes())
        return self._shown

    @property
    def tail(self) -> Node | None:
        """The end of the path that is shown."""
        return self._tail

    @property
    def is_paired(self) -> bool:
        """Whether each call that is shown has exactly one result behind its message, and there are no others."""
        return self._unpaired == 0 and self._tail is not None

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The unanswered calls of the last message that made any, in its order."""
        return open_calls(self._shown or ()) if self._tail is None else open_calls_at(self._tail)

    def upward(self, node: Node | None = None) -> Iterator[Node]:
        """The path to this node from its end. Without a node, the path that is shown."""
        return _up(node or self._tail)

    def nodes(self, last: Node | None = None) -> list[Node]:
        """The path to this node from its beginning. Without a node, the path that is shown."""
        path = list(_up(last or self._tail))
        path.reverse()
        return path

    def find(self, message_id: str) -> Node | None:
        """The node of this message, or of the call that it answers. Of several versions, the one that is shown, or was
        shown last."""
        return self._by_id.get(message_id)

    def find_call(self, call_id: str) -> Node | None:
        """The node of the message that made this call. Of several, the latest that is shown."""
        found = self._by_call.get(call_id)
        if found is not None and not found.shown and call_id in self._same:
            latest = islice(reversed(self._same[call_id]), MOST_VERSIONS)
            return next((node for node in latest if node.shown), found)
        return found

    def add(self, message: Message, *, run_id: str = "", seq: int = 0, observed: bool = False) -> None:
        """Add a message behind the last one, or a result to its call."""
        node = self.find_call(message.tool_call_id or "") if message.role == "tool" else None
        before = 1 if node is None or node.is_paired else 0
        if node is None:
            node = Node(message, self._tail, run_id, seq, observed)
            self._link(node)
            self._tail = node
            self._make(node)
            at_end = True
        else:
            at_end = node.take(message) and node is self._tail
        self._by_id[message.id] = node
        if not node.shown:
            return
        self._unpaired += before - node.is_paired
        self.message_ids.add(message.id)
        if not at_end:
            self._shown = None
        elif self._shown is not None:
            self._shown.append(message)

    @property
    def empty(self) -> bool:
        """Whether no message was ever added."""
        return self._start is None

    def _make(self, node: Node) -> None:
        for call in node.message.tool_calls:
            if call.id in self._by_call:
                self._same.setdefault(call.id, [self._by_call[call.id]]).append(node)
            self._by_call[call.id] = node

    def _link(self, node: Node) -> None:
        if node.parent is None:
            self._start = node
        else:
            node.parent.next_seq = node.seq

    def since(self, after: str) -> int:
        """The number of the entry since which the shown path no longer ends on this message: the entry of the node that
        stood behind it last, or of the rewind that hid it. 0 if that is not known."""
        node = self._by_id.get(after)
        if node is None:
            return 0 if self._start is None else self._start.seq
        if node.next_seq is not None:
            return node.next_seq
        return 0 if node.shown else node.left

    def rewind(self, after: str, seq: int = 0) -> int:
        """Show the path that ends on this message and the results of its calls. Show nothing if the id is empty.

        An unknown id changes nothing. `seq` is the number of the rewind's entry. Returns how many messages were hidden
        or shown by it.
        """
        node = self._by_id.get(after)
        if node is None and after:
            return 0
        count = len(self.message_ids)
        fresh: list[Node] = []
        for each in _up(node):
            if each.shown:
                break
            fresh.append(each)
        common = fresh[-1].parent if fresh else node
        gone: list[str] = []
        for each in _up(self._tail):
            if each is common:
                break
            each.shown, each.left = False, seq
            self._unpaired -= not each.is_paired
            gone += _ids(each)
        self.message_ids.difference_update(gone)
        hidden = count - len(self.message_ids)
        for each in reversed(fresh):
            each.shown = True
            self._unpaired += not each.is_paired
            self._link(each)
            self.message_ids.update(_ids(each))
            self._by_id.update((message_id, each) for message_id in _ids(each))
            self._by_call.update((call.id, each) for call in each.message.tool_calls)
        self._tail, self._shown = node, None
        return hidden + len(self.message_ids) - (count - hidden)


def open_calls_at(node: Node | None) -> tuple[ToolCall, ...]:
    """The unanswered calls of the last message that made any, on the path to this node."""
    calling = None if node is None else node.calling
    return () if calling is None else calling.open_calls


def messages_of(nodes: list[Node]) -> list[Message]:
    """The messages of a path, results included."""
    return [message for node in nodes for message in (node.message, *node.results)]


def _up(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.parent


def _ids(node: Node) -> list[str]:
    return [node.message.id, *(result.id for result in node.results)] if node.results else [node.message.id]
