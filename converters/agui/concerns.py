"""The list of an AG-UI reader's converters, one for each concern.

Of AG-UI's twelve concerns eleven stand here: run, text, reasoning, tool calls, tool results, usage, interrupts,
activity, custom events, state and messages. Subagents are the twelfth. A run has no internal events of them yet.
"""

from converters.agui.activity import Activity
from converters.agui.blocks import Reasoning, Text, ToolCalls
from converters.agui.custom import Customs
from converters.agui.interrupts import Interrupts
from converters.agui.lifecycle import Lifecycle
from converters.agui.raw import Raw
from converters.agui.snapshots import Messages, StateSync
from converters.agui.tool_results import ToolResults
from converters.agui.usage import TokenUsage
from converters.chain import Converter


def converters(
    thread_id: str, run_id: str, parent_run_id: str | None = None, *, reasoning: bool = False
) -> list[Converter]:
    """The converters of one reader, RAW last. A user's own go in front of them, so they win. `reasoning` says that the
    reader has shown that it takes `reasoning` messages."""
    return [
        Lifecycle(thread_id, run_id, parent_run_id),
        Text(),
        Reasoning(),
        ToolCalls(),
        ToolResults(),
        TokenUsage(),
        Interrupts(),
        Activity(),
        Customs(),
        StateSync(),
        Messages(reasoning=reasoning),
        Raw(),
    ]
