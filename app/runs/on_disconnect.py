"""What happens to a run when its client leaves, which clients, agents and operators can say."""

from fastapi import Request

from agent_core.agent import Agent
from agent_core.errors import InvalidRequest
from app.runs.run import OnDisconnect
from app.settings import Settings

HEADER = "X-On-Disconnect"


def on_disconnect_of(request: Request, agent: Agent, settings: Settings) -> OnDisconnect:
    """What happens when the last reader leaves: the request's word, over the agent's, over the server's.
    Raises InvalidRequest for a word that is none."""
    asked = request.headers.get(HEADER)
    if asked is None:
        return agent.on_disconnect or settings.on_disconnect
    if asked == "cancel":
        return "cancel"
    if asked == "continue":
        return "continue"
    raise InvalidRequest(f"{HEADER}: 'cancel' or 'continue' is needed.", HEADER)
