"""Makes runs: checks the input, and gives the run what all runs share. Nothing here waits."""

import asyncio
from collections.abc import Callable
from typing import Any

from agent_core.agent import Agent
from agent_core.checking.arguments import Validators
from agent_core.errors import InvalidRequest
from agent_core.messages import new_id
from agent_core.models.base import Model
from agent_core.models.http import HttpClient
from agent_core.models.providers import open_model
from agent_core.names import SessionKey
from agent_core.react.lane import Lane
from agent_core.react.scope import Scope
from agent_core.react.stopping import GRACE, Stop
from agent_core.room import Room
from agent_core.run import Outside, Run
from agent_core.run_input import RunInput
from agent_core.sessions.entries import now_ms
from agent_core.sessions.leases import Leases
from agent_core.sessions.state import check_state
from agent_core.threads import Threads


class Admission:
    """Makes runs. It owns what they share: the HTTP client, the threads for synchronous tools, the validators."""

    def __init__(self, http: HttpClient) -> None:
        self.aside = http.aside
        self._http = http
        self._threads = Threads()
        self._models: dict[str, Model] = {}
        self._validators = Validators()
        self._room = Room()
        self._orphans: set[asyncio.Task[Any]] = set()

    async def aclose(self) -> None:
        """Wait for calls that were left behind, and close all that is owned."""
        if self._orphans:
            await asyncio.wait(self._orphans, timeout=GRACE)
        await self._http.aclose()
        self._threads.close()
        self.aside.close()

    def make(
        self,
        agent: Agent,
        given: RunInput,
        key: SessionKey,
        leases: Leases,
        *,
        run_id: str | None = None,
        ephemeral: bool = False,
        seen: Callable[[str], bool] | None = None,
        outside: Outside | None = None,
    ) -> Run:
        """Make a run. It still needs its place at the gate. Raises InvalidRequest."""
        check_state(given.state)
        own = {tool.spec.name for tool in agent.tools}
        for index, spec in enumerate(given.tools):
            if spec.name in own:
                raise InvalidRequest(
                    f"The agent {agent.name!r} has a tool named {spec.name!r} already.", f"tools[{index}].name"
                )
        model = self._model_of(agent.model)
        fallback = self._model_of(agent.fallback_model) if agent.fallback_model is not None else None
        scope = Scope(
            run_id=run_id or new_id("run"),
            key=key,
            leases=leases,
            ephemeral=ephemeral,
            before_calls=None if outside is None else outside.before_calls,
            http=self._http,
            threads=self._threads.of(key),
            stop=Stop(self._orphans),
            validators=self._validators,
            aside=self.aside,
            room=self._room,
            arrived=now_ms(),
        )
        scope.seen = seen or scope.seen
        return Run(Lane(scope=scope, agent=agent, model=model, fallback=fallback, input=given), outside)

    def _model_of(self, named: str | Model) -> Model:
        if not isinstance(named, str):
            return named
        model = self._models.get(named)
        if model is None:
            model = self._models[named] = open_model(named)
        return model
