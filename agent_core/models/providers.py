"""Models by their names, such as `openai:gpt-5`."""

from agent_core.models.base import Model

KNOWN = "openai:NAME, fake:fake, fake:demo"


def open_model(spec: str) -> Model:
    """The model for `provider:name`. The name may hold more colons. This opens no connection.

    Raises ValueError for an unknown provider, an empty name, and an OPENAI_BASE_URL that cannot be called.
    """
    provider, _, name = spec.partition(":")
    if provider == "openai" and name:
        from agent_core.models.openai_chat import OpenAIChat

        return OpenAIChat(name)
    if spec == "fake:fake":
        from agent_core.models.keyless.fake import FakeModel

        return FakeModel()
    if spec == "fake:demo":
        from agent_core.models.keyless.demo import DemoModel

        return DemoModel()
    raise ValueError(f"there is no model {spec!r}: known are {KNOWN}")
