"""The life of a run: gate, load, loop, append, release, and one terminal event, however it ends."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from agent_core.agent import Agent
from agent_core.errors import InvalidRequest, RunError
from agent_core.events import AgentEnd, RunFailed
from agent_core.gate import Gate
from agent_core.messages import new_id
from agent_core.models.base import Model
from agent_core.models.http import HttpClient
from agent_core.models.providers import open_model
from agent_core.react.acting import settle
from agent_core.react.interrupts import Stopped, StopReason
from agent_core.react.loop import react
from agent_core.react.run import Run, Sink
from agent_core.run_input import RunInput
from agent_core.sessions.entries import SessionKey, end_entry, history_of
from agent_core.sessions.store import Store

logger = logging.getLogger(__name__)

SAVING = 10.0
"""Seconds that a run may take to pair, save and release at its end."""

THREADS = 32
"""Synchronous tools that can run at the same time; the others wait for a thread."""


class Runner:
    """Carries runs out. It owns what all runs share (the HTTP client, the threads for synchronous tools,
    the store), and knows the runs that are under way only so that they can be stopped."""

    def __init__(self, store: Store, gate: Gate, http: HttpClient) -> None:
        self.store = store
        self.gate = gate
        self.owner = new_id("worker")
        self._http = http
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="tool")
        self._models: dict[str, Model] = {}
        self._runs: dict[SessionKey, list[Run]] = {}
        self._tasks: set[asyncio.Task[AgentEnd | RunFailed]] = set()

    async def aclose(self) -> None:
        for runs in list(self._runs.values()):
            for run in runs:
                run.stop.request("draining")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SAVING)
        await self._http.aclose()
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self.store.aclose()

    def under_way(self, key: SessionKey) -> tuple[Run, ...]:
        """The session's runs: first the one that holds the gate, then those that wait."""
        return tuple(self._runs.get(key, ()))

    def admit(
        self,
        agent: Agent,
        given: RunInput,
        key: SessionKey,
        run_id: str | None = None,
    ) -> Run:
        """Check the input and take a place at the gate; nothing is done yet. Start the run, or leave
        the ticket. Raises InvalidRequest, SessionBusy or QueueFull."""
        own = {tool.spec.name for tool in agent.tools}
        for index, spec in enumerate(given.tools):
            if spec.name in own:
                raise InvalidRequest(
                    f"The agent {agent.name!r} has a tool named {spec.name!r} already.", f"tools[{index}].name"
                )
        model = self._model_of(agent)
        run_id = run_id or new_id("run")
        run = Run(
            run_id=run_id,
            key=key,
            agent=agent,
            model=model,
            input=given,
            ticket=self.gate.enter(key, run_id),
            store=self.store,
            http=self._http,
            threads=self._threads,
        )
        self._runs.setdefault(key, []).append(run)
        return run

    def start(self, run: Run, sink: Sink) -> asyncio.Task[AgentEnd | RunFailed]:
        """Carry the run out in a task of its own, which is never cancelled; stop it by `run.stop`.

        Its events go to the sink; the last one, which is also the task's result, is an AgentEnd or a
        RunFailed, whatever happens.
        """
        run.attach(sink)
        task = asyncio.get_running_loop().create_task(self._carry_out(run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _carry_out(self, run: Run) -> AgentEnd | RunFailed:
        end: AgentEnd | RunFailed | None = None
        try:
            end = await self._go(run)
        except Exception:
            logger.exception("run %s could not be ended properly", run.run_id)
        finally:
            self._forget(run)
            run.ticket.leave()
        if end is None:
            end = _failed(run, RunError("internal"))
        run.announce()
        run.emit(end)
        return end

    async def _go(self, run: Run) -> AgentEnd | RunFailed:
        end: AgentEnd | RunFailed
        try:
            if not run.ticket.holds:
                run.announce()
                await run.stop.guard(run.ticket.wait())
            run.lease = await self.store.acquire(run.key, self.owner)
            run.history = history_of(await self.store.load(run.key), run.agent.name)
            end = AgentEnd(run_id=run.run_id, status=await react(run), usage=run.usage)
        except Stopped as stopped:
            end = _stopped(run, stopped.reason)
        except RunError as error:
            logger.warning("run %s failed: %s (%s)", run.run_id, error.code, error.detail or "no detail")
            end = _failed(run, error)
        except Exception:
            logger.exception("run %s failed", run.run_id)
            end = _failed(run, RunError("internal"))
        if run.lease is not None:
            end = await self._save(run, end)
        return end

    async def _save(self, run: Run, end: AgentEnd | RunFailed) -> AgentEnd | RunFailed:
        """Pair what is open, write the end down and release. A failure here is the run's failure."""
        try:
            async with asyncio.timeout(SAVING):
                if isinstance(end, AgentEnd):
                    if end.status == "cancelled":
                        await settle(run)
                    await run.append(end_entry(run.run_id, end.status))
                else:
                    await settle(run)
                    await run.append(end_entry(run.run_id, "failed", end.code))
        except TimeoutError:
            end = _failed(run, RunError("store_unavailable"))
        except RunError as error:
            end = _failed(run, error)
        assert run.lease is not None
        await self.store.release(run.lease)
        return end

    def _forget(self, run: Run) -> None:
        runs = self._runs[run.key]
        runs.remove(run)
        if not runs:
            del self._runs[run.key]

    def _model_of(self, agent: Agent) -> Model:
        if not isinstance(agent.model, str):
            return agent.model
        model = self._models.get(agent.model)
        if model is None:
            model = self._models[agent.model] = open_model(agent.model)
        return model


def _stopped(run: Run, reason: StopReason) -> AgentEnd | RunFailed:
    if reason == "deadline":
        return _failed(run, RunError("run_deadline"))
    if reason == "draining":
        return _failed(run, RunError("draining"))
    return AgentEnd(run_id=run.run_id, status="cancelled", usage=run.usage)


def _failed(run: Run, error: RunError) -> RunFailed:
    return RunFailed(run_id=run.run_id, code=error.code, message=error.message, usage=run.usage)
