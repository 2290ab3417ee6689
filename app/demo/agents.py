"""Three agents to try without any key: `demo` shows what the server does, `clock` tells the time, `vessel`
follows data through three tools.
"""

from datetime import datetime
from hashlib import blake2s
from typing import Annotated, Any

from pydantic import Field

from agent_core.agent import Agent
from agent_core.errors import ToolError
from agent_core.tools.function import tool

SCHEDULES = {
    "MSC AURORA": {
        "vessel": "MSC AURORA",
        "voyage": "V-2609A",
        "position": "Strait of Malacca",
        "next_port": "Rotterdam",
        "arrival": "2026-10-04",
    },
    "EVER HARMONY": {
        "vessel": "EVER HARMONY",
        "voyage": "V-2611C",
        "position": "Port of Ningbo, at berth",
        "next_port": "Long Beach",
        "arrival": "2026-10-19",
    },
}
CARGO = {
    "V-2609A": {"voyage": "V-2609A", "cargo": [{"cargo_id": "C-001", "goods": "machine parts", "containers": 12}]},
    "V-2611C": {"voyage": "V-2611C", "cargo": [{"cargo_id": "C-117", "goods": "solar panels", "containers": 40}]},
}
DETAILS = {
    "C-001": {"cargo_id": "C-001", "location": "hold 3, bay 14", "weight_t": 186, "state": "sealed, customs cleared"},
    "C-117": {"cargo_id": "C-117", "location": "deck, bay 22", "weight_t": 520, "state": "sealed, customs pending"},
}

SKIES = ("sunny", "cloudy", "rainy", "windy", "foggy", "snowy")


@tool
def get_weather(city: Annotated[str, Field(description="The city's name (城市), such as Paris")]) -> dict[str, Any]:
    """Weather / 天气: made up from the city's name, since the demo is offline"""
    some, more = blake2s(city.strip().casefold().encode(errors="replace")).digest()[:2]
    return {"city": city.strip(), "sky": SKIES[some % len(SKIES)], "celsius": more % 30, "source": "made up"}


@tool(approval=True)
def send_email(to: str, subject: str, body: str) -> str:
    """Email / 邮件: writes an email, once a person has agreed; the demo has no mail server and delivers none"""
    return (
        f"Written to {to}: {subject!r}, {len(body)} characters. The demo has no mail server, so it was not delivered."
    )


@tool
def take_step(number: int) -> str:
    """Takes a step and does nothing else"""
    return f"Step {number} is taken."


@tool
def query_time() -> str:
    """时间查询: the current local date and time, for questions such as what time is it (现在几点, 今天几号, 日期)"""
    return datetime.now().strftime("%Y-%m-%d %H:%M:%S")


@tool
def query_vessel_schedule(
    vessel: Annotated[str, Field(description="The vessel's name (船名), such as MSC AURORA or EVER HARMONY")],
) -> dict[str, Any]:
    """Vessel schedule / 船期查询: where a vessel (ship, 船) is (在哪里), its port, and its voyage (航次)"""
    return _look_up(SCHEDULES, vessel.strip().upper(), "vessel")


@tool
def query_voyage_cargo(
    voyage: Annotated[str, Field(description="The voyage's number (航次号), such as V-2609A")],
) -> dict[str, Any]:
    """Voyage cargo / 航次货物: which cargo (货物) a voyage carries, with the id of each"""
    return _look_up(CARGO, voyage.strip().upper(), "voyage")


@tool
def query_cargo_detail(
    cargo_id: Annotated[str, Field(description="The cargo's id (货物编号), such as C-001")],
) -> dict[str, Any]:
    """Cargo detail / 货物详情: the place of a cargo on board, its weight and state (位置, 重量, 状态)"""
    return _look_up(DETAILS, cargo_id.strip().upper(), "cargo")


def _look_up(table: dict[str, dict[str, Any]], key: str, what: str) -> dict[str, Any]:
    if key not in table:
        raise ToolError(f"There is no {what} {key!r}. Known are: {', '.join(table)}.")
    return table[key]


demo = Agent(
    name="demo",
    model="fake:demo",
    instructions=(
        "You show what this server can do. Use your tools for the weather, for emails and for steps; say honestly "
        "what was not done, such as an email that nobody approved. Answer in the language of the question."
    ),
    tools=[get_weather, send_email, take_step],
    max_iterations=5,
    description='Shows what the server does: "hello", "weather in Paris", "slow", "approve email". 演示。',
)

clock = Agent(
    name="clock",
    model="fake:fake",
    instructions='Tell the time with your tool, never from memory. Answer in the form "时间查询完成: <time>".',
    tools=[query_time],
    description="Tells the local time. 查询当前时间。",
)

vessel = Agent(
    name="vessel",
    model="fake:fake",
    instructions=(
        "Answer questions about vessels and their cargo from the tools: a vessel's schedule names its voyage, the "
        "voyage its cargo, and the cargo's id leads to its details. Answer in the language of the question."
    ),
    tools=[query_vessel_schedule, query_voyage_cargo, query_cargo_detail],
    max_iterations=2,
    description="Follows a vessel to its voyage, cargo and details, two rounds at a time. 船期、航次、货物查询。",
)

agents = [demo, clock, vessel]
