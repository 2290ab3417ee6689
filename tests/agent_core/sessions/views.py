"""All that a fold knows, in a form that can be compared."""

from typing import Any

from agent_core.sessions.folds import Fold
from agent_core.sessions.standing import History, Standing
from agent_core.sessions.tree import Node


def view_of(fold: Fold) -> dict[str, Any]:
    """What the fold knows of its session."""
    return {"head": fold.head, "size": fold.size, **_of_standing(fold.standing)}


def _of_standing(standing: Standing) -> dict[str, Any]:
    session = standing.session
    used = {key: each for key, each in standing.histories.items() if each.runs or not each.tree.empty}
    return {
        "histories": {key: _of_history(each) for key, each in used.items()},
        "agents": list(standing.agents),
        "runs": list(standing.runs.items()),
        "owners": standing.owners,
        "operations": standing.operations,
        "takers": standing.takers,
        "switched": standing.switched,
        "calling": [(history.agent, message.id) for history, message in standing._calling],
        "asking": [history.agent for history in standing._asking],
        "call_ids": session.call_ids,
        "started": session.started,
        "decisions": session.decisions,
        "clients": session.clients,
        "open_runs": {key: run for key, (run, _) in session.open_runs.items()},
        "others": session.others,
        "title": session.title,
        "state": session.state,
        "changes": (session.changes.weight, session.changes.misfits, session.changes.last),
    }


def _of_history(history: History) -> dict[str, Any]:
    tree = history.tree
    return {
        "messages": history.messages,
        "message_ids": history.message_ids,
        "pending": history.pending,
        "asked": history.asked,
        "foreign": history.foreign,
        "runs": list(history.runs.items()),
        "turn": history.turn,
        "by_id": {message_id: _of_node(node) for message_id, node in tree._by_id.items()},
        "by_call": {call_id: _of_node(node) for call_id, node in tree._by_call.items()},
        "same": {call_id: [_of_node(node) for node in nodes] for call_id, nodes in tree._same.items()},
        "start": tree._start and _of_node(tree._start),
        "path": [_of_node(node) for node in tree.nodes()],
    }


def _of_node(node: Node) -> tuple[Any, ...]:
    parent = node.parent.message.id if node.parent is not None else None
    results = [each.id for each in node.results]
    seqs = (node.seq, node.left, node.next_seq)
    return (node.message.id, parent, results, seqs, node.run_id, node.observed, node.shown)
