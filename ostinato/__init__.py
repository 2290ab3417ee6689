"""The door to Ostinato: `from ostinato import Agent, tool, Engine`.

Each name is imported when it is first used: `python -m ostinato` imports this module before it can check whose
`agent_core` and `app` the current folder has. Types stand in `__init__.pyi`.
"""

from importlib import import_module

__all__ = ["Agent", "Engine", "ToolContext", "ToolError", "create_app", "tool"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'ostinato' has no attribute {name!r}")
    return getattr(import_module("app.main" if name == "create_app" else "agent_core"), name)
