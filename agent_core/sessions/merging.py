"""Merges changes of the session's state that were made side by side."""

from typing import Any

from agent_core.sessions.state import same_json

SHALLOW = 4
"""Objects are first compared as a whole, which is quick, but only down to this level. With more levels, the inner
objects would be compared again and again."""

_GONE: Any = object()
"""Stands for a value that is not there. None would not do, because null is a value."""


def merged(before: Any, after: Any, now: Any) -> Any:
    """The state `now` with the changes that led from `before` to `after`. None of the three is changed; the result may
    share parts with them.

    Objects are compared key by key at every level. If both sides have changed the same value, `after` counts, also if
    it has removed the value. If both have only added items at the end of a list, all are kept, those of `now` first.
    """
    if _same(before, after):
        return now
    if now is None and isinstance(before, dict):  # no state yet counts as an empty one
        now = {}
    return after if _same(before, now) else _merged(before, after, now, 0)


def _merged(before: Any, after: Any, now: Any, level: int) -> Any:
    objects = isinstance(after, dict) and isinstance(now, dict)
    if (level < SHALLOW or not objects) and _same(before, after):
        return now
    if objects:
        old = before if isinstance(before, dict) else {}
        keys = (*now, *(key for key in after if key not in now))
        at = level + 1
        found = ((k, _merged(old.get(k, _GONE), after.get(k, _GONE), now.get(k, _GONE), at)) for k in keys)
        return {key: value for key, value in found if value is not _GONE}
    if isinstance(after, list) and isinstance(now, list):
        old_list = [] if before is _GONE else before  # no list yet counts as an empty one
        size = len(old_list) if isinstance(old_list, list) else 0
        if same_json(old_list, after[:size]) and same_json(old_list, now[:size]):
            return [*now, *after[size:]]
    return after


def _same(one: Any, other: Any) -> bool:
    return one is other or (one is not _GONE and other is not _GONE and same_json(one, other))
