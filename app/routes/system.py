"""What is served here, and whether the server is well."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from agent_core.agent import Agent
from agent_core.errors import RunError
from app.routes.common import READ, json
from app.routes.page import POLICY, page
from app.services import services_of

router = APIRouter()


@router.api_route("/agents", methods=READ, response_model=None)
async def agents(request: Request) -> Response:
    """The agents: name, description, model, tools, and which one is the default."""
    roster = services_of(request).roster
    return json({"agents": [_describe(agent, agent is roster.default) for agent in roster.agents]})


@router.api_route("/healthz", methods=READ, response_model=None)
async def healthz() -> Response:
    """200 as long as the process lives."""
    return json({"status": "ok"})


@router.api_route("/readyz", methods=READ, response_model=None)
async def readyz(request: Request) -> Response:
    """200 while new runs are taken; 503 once the server drains, and while its store cannot be written."""
    services = services_of(request)
    if services.runs.draining:
        raise RunError("draining")
    await services.health.check()
    return json({"status": "ready"})


@router.api_route("/", methods=READ, response_model=None)
async def index(request: Request) -> Response:
    """A plain page with the endpoints, the agents and what to type."""
    services = services_of(request)
    html = page(str(request.base_url), services.roster, keyed=bool(services.keys))
    return HTMLResponse(html, headers={"content-security-policy": POLICY, "x-content-type-options": "nosniff"})


def model_name(agent: Agent) -> str:
    """`provider:model`, also for a Model of the user's own."""
    if isinstance(agent.model, str):
        return agent.model
    return f"{agent.model.provider}:{agent.model.name}"


def _describe(agent: Agent, default: bool) -> dict[str, object]:
    tools = [{"name": tool.spec.name, "description": tool.spec.description} for tool in agent.tools]
    return {
        "name": agent.name,
        "description": agent.description,
        "model": model_name(agent),
        "default": default,
        "tools": tools,
    }
