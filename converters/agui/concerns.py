"""The list: which converters an AG-UI reader has, one per concern."""

from converters.agui.blocks import Reasoning, Text, ToolCalls
from converters.agui.notes import Customs, Interrupts, Raw, TokenUsage, ToolResults
from converters.agui.run import Run
from converters.chain import Converter


def converters(thread_id: str, run_id: str, parent_run_id: str | None = None) -> list[Converter]:
    """The converters of one reader, RAW last. A user's own go in front of them and so win."""
    return [
        Run(thread_id, run_id, parent_run_id),
        Text(),
        Reasoning(),
        ToolCalls(),
        ToolResults(),
        TokenUsage(),
        Interrupts(),
        Customs(),
        Raw(),
    ]
