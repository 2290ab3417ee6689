import pytest

from agent_core.models.openai_chat import OpenAIChat
from agent_core.models.providers import open_model


@pytest.mark.parametrize("name", ["gpt-5", "llama3:8b", "org/model"])
def test_openai_models_are_opened_by_name(name: str) -> None:
    assert open_model(f"openai:{name}") == OpenAIChat(name)


def test_the_fake_model_is_opened() -> None:
    model = open_model("fake:fake")
    assert f"{model.provider}:{model.name}" == "fake:fake"


def test_a_base_url_that_cannot_be_called_is_found_when_the_model_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:8000")
    with pytest.raises(ValueError, match=r"^OPENAI_BASE_URL: "):
        open_model("openai:gpt-5")


@pytest.mark.parametrize("spec", ["", "openai", "openai:", "gpt-5", "nobody:gpt-5", "fake:", "fake:other", ":x"])
def test_anything_else_is_refused_with_the_known_ones(spec: str) -> None:
    with pytest.raises(ValueError, match=r"known are openai:NAME, fake:fake") as refusal:
        open_model(spec)
    assert repr(spec) in str(refusal.value)
