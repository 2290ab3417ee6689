"""Good bodies gone wrong, for the decoders' fuzz tests."""

import json
from typing import Any

from hypothesis import strategies as st


def mangled(data: st.DataObject, body: bytes, values: st.SearchStrategy[Any]) -> bytes:
    """The body with one to three of its values, at any depth, replaced by others or taken out."""
    members = json.loads(body)
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(_spots(members)))
        if data.draw(st.booleans()):
            container[key] = data.draw(values)
        elif isinstance(container, dict):
            del container[key]
    return json.dumps(members).encode()


def _spots(value: Any) -> list[tuple[Any, Any]]:
    """Every place in the value: a container and the key or index in it."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    inner = [spot for _, each in items if isinstance(each, dict | list) for spot in _spots(each)]
    return [(value, key) for key, _ in items] + inner
