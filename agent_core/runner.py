"""The life of a run: gate, load, loop, append, release, and one terminal event, however it ends."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from agent_core.agent import Agent
from agent_core.aside import SMALL
from agent_core.checking.arguments import Validators
from agent_core.errors import InvalidRequest, RunError
from agent_core.events import AgentEnd, RunFailed
from agent_core.gate import Gate
from agent_core.messages import new_id
from agent_core.models.base import Model
from agent_core.models.http import HttpClient
from agent_core.models.providers import open_model
from agent_core.react.acting import settle
from agent_core.react.endings import End, failed, stopped_by, tell_outside
from agent_core.react.loop import react
from agent_core.react.opening.adopt import title_of
from agent_core.react.room import Room
from agent_core.react.run import Outside, Run, Sink
from agent_core.react.stopping import GRACE, Stop, Stopped, StopReason
from agent_core.run_input import RunInput
from agent_core.sessions.entries import Entry, SessionKey, end_entry, now_ms, titled_entry, weight_of
from agent_core.sessions.heartbeat import Heartbeat
from agent_core.sessions.history import History, history_of
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.leases import SAVING, Leases, Writer
from agent_core.sessions.state import check_state
from agent_core.sessions.store import Store
from agent_core.threads import Threads

logger = logging.getLogger(__name__)

LEASE_SECONDS = 30.0
"""How long a worker counts as alive after its last heartbeat."""


class Runner:
    """Carries runs out. It owns what all runs share (the HTTP client, the threads for synchronous tools,
    the store), and knows the runs that are under way only so that they can be stopped."""

    def __init__(self, store: Store, gate: Gate, http: HttpClient, lease_seconds: float = LEASE_SECONDS) -> None:
        self.store = store
        self.scratch = InMemoryStore()
        self.gate = gate
        self.owner = owner = new_id("worker")
        self.heartbeat = heartbeat = Heartbeat(
            store,
            owner,
            lease_seconds,
            busy=lambda: bool(self._tasks) or self._writers > 0,
            cancel=self._cancel,
            lost=lambda: self._stop_all("lost"),
        )
        self._leases = Leases(store, owner, heartbeat)
        self._scratch_leases = Leases(self.scratch, owner)
        self._patience = gate.wait_seconds if gate.when_busy == "queue" else 0
        self._writers = 0
        self._http = http
        self._threads = Threads()
        self.aside = http.aside
        self._models: dict[str, Model] = {}
        self._validators = Validators()
        self._room = Room()
        self._runs: dict[SessionKey, list[Run]] = {}
        self._tasks: set[asyncio.Task[End]] = set()
        self._orphans: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def aclose(self) -> None:
        """Stop what is under way, wait until it is saved, and close what is owned. Nothing new begins."""
        self._closed = True
        self._stop_all("draining")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SAVING)
        if self._orphans:
            await asyncio.wait(self._orphans, timeout=GRACE)
        await self._http.aclose()
        self._threads.close()
        self.aside.close()
        await self._leases.aclose()
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
        *,
        ephemeral: bool = False,
        seen: Callable[[str], bool] | None = None,
        outside: Outside | None = None,
    ) -> Run:
        """See Engine.admit."""
        self._check_open()
        check_state(given.state)
        own = {tool.spec.name for tool in agent.tools}
        for index, spec in enumerate(given.tools):
            if spec.name in own:
                raise InvalidRequest(
                    f"The agent {agent.name!r} has a tool named {spec.name!r} already.", f"tools[{index}].name"
                )
        model = self._model_of(agent.model)
        fallback = self._model_of(agent.fallback_model) if agent.fallback_model is not None else None
        run_id = run_id or new_id("run")
        run = Run(
            run_id=run_id,
            key=key,
            agent=agent,
            model=model,
            fallback=fallback,
            input=given,
            history=History(agent=agent.name),
            store=self.scratch if ephemeral else self.store,
            ephemeral=ephemeral,
            outside=outside,
            http=self._http,
            alive=self._leases_of(ephemeral).check,
            threads=self._threads.of(key),
            stop=Stop(self._orphans),
            validators=self._validators,
            aside=self.aside,
            room=self._room,
            arrived=now_ms(),
        )
        run.seen = seen or run.seen
        # Last, when nothing can raise any more: a place that nobody gives back would block the session for good.
        run.ticket = self.gate.enter(key, run_id)
        run.waited = not run.ticket.holds
        self._runs.setdefault(key, []).append(run)
        return run

    def start(self, run: Run, sink: Sink) -> asyncio.Task[End]:
        """See Engine.start."""
        try:
            run.attach(sink)
            loop = asyncio.get_running_loop()
        except BaseException:
            self._forget(run)
            run.ticket.leave()
            raise
        task = loop.create_task(self._carry_out(run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @asynccontextmanager
    async def writing(self, key: SessionKey, run_id: str, *, always: bool = True) -> AsyncGenerator[Writer, None]:
        """What a run does around its loop, for those who only write: gate, lease, load, and release. `always`
        is the gate's."""
        self._check_open()
        ticket = self.gate.enter(key, run_id, always=always)
        self._writers += 1
        try:
            await ticket.wait()
            writer = await self._leases.open(key, wait=self.gate.wait_seconds)
            try:
                async with asyncio.timeout(SAVING):
                    yield writer
            except TimeoutError as error:
                raise RunError("store_unavailable", detail="no answer in time") from error
            finally:
                await self._leases.release(writer.lease)
        finally:
            self._writers -= 1
            ticket.leave()

    async def _carry_out(self, run: Run) -> End:
        end: End = failed(run, RunError("internal"))
        try:
            end = await self._go(run)
            if run.lease is not None:
                end = await self._save(run, end)
        except Exception:
            logger.exception("run %s could not be ended properly", run.run_id)
        finally:
            if run.ephemeral:
                end = await self._part(run, end)
            self._forget(run)
            run.ticket.leave()
            run.announce()
            run.emit(end)
        return end

    async def _go(self, run: Run) -> End:
        try:
            if not run.ticket.holds:
                run.announce()
                await run.stop.guard(run.ticket.wait())
            await self._open(run)
            status = await react(run)
            waits = run.history.pending if status in ("approval", "waiting") else ()
            cut = run.cut if status in ("completed", "max_iterations") else None
            return AgentEnd(run_id=run.run_id, status=status, interrupts=waits, usage=run.usage, cut=cut)
        except InvalidRequest as error:
            return RunFailed(run_id=run.run_id, code="invalid_request", message=error.message, param=error.param)
        except Stopped as stopped:
            return stopped_by(run, stopped.reason)
        except RunError as error:
            logger.warning("run %s failed: %s (%s)", run.run_id, error.code, error.detail or "no detail")
            return failed(run, error)
        except KeyboardInterrupt:
            raise
        except BaseException:  # sys.exit in the user's code, a cancel that leaked: no reason to end in silence
            logger.exception("run %s failed", run.run_id)
            return failed(run, RunError("internal"))

    async def _open(self, run: Run) -> None:
        """Become the session's writer and read it; a stop ends the wait for a store that is silent."""
        leases = self._leases_of(run.ephemeral)
        try:
            writer = await run.stop.guard(leases.open(run.key, wait=self._patience, waiting=run.announce))
            run.lease, run.entries = writer.lease, writer.entries
            run.history = await self._read(run, writer.entries)
            if run.history.misfits:
                logger.warning(
                    "run %s: %d stored changes of its session's state do not fit and are passed over; "
                    "`ostinato sessions verify` names them",
                    run.run_id,
                    run.history.misfits,
                )
        except (RunError, Stopped):
            raise
        except Exception as error:
            raise RunError("store_unavailable", detail=type(error).__name__) from error

    async def _read(self, run: Run, entries: Sequence[Entry]) -> History:
        if not entries:
            return run.history
        weight = weight_of(entries)
        if weight <= SMALL:  # a task of its own costs what a short run notices
            return history_of(entries, run.agent.name)
        return await run.stop.guard(self.aside(weight, history_of, entries, run.agent.name))

    async def _save(self, run: Run, end: End) -> End:
        """Pair what is open, write the end down and release. What fails in writing is the run's failure;
        a release that fails is not, since all is stored."""
        assert run.lease is not None
        try:
            async with asyncio.timeout(SAVING):
                if not run.begun:  # nothing was taken in: it leaves no trace
                    await self._leases_of(run.ephemeral).release(run.lease)
                    return end
                if isinstance(end, RunFailed) or end.status == "cancelled":
                    await settle(run, keep_asked=isinstance(end, RunFailed))
                run.announce()  # before the end is numbered
                status, code = ("failed", end.code) if isinstance(end, RunFailed) else (end.status, None)
                entry = end_entry(
                    run.run_id,
                    status,
                    code,
                    last=run.sink.end,
                    unread=not run.sink.attended,
                    tokens=run.tokens,
                    seconds=monotonic() - run.began,
                    cut=None if isinstance(end, RunFailed) else end.cut,
                )
                await run.append(entry, release=True)
            return end
        except RunError as error:
            end = failed(run, error)
        except BaseException:
            logger.exception("run %s could not be saved", run.run_id)
            end = failed(run, RunError("store_unavailable"))
        await self._leases_of(run.ephemeral).release(run.lease)
        return end

    async def _part(self, run: Run, end: End) -> End:
        """An ephemeral session is over: it is forgotten, or, where it waits for somebody who may take days, moved to
        where the other sessions live."""
        try:
            if isinstance(end, AgentEnd) and end.interrupts:
                title = titled_entry(run.run_id, title_of(run.history.messages) or run.key.session_id)
                entries = [*await self.scratch.load(run.key), title]
                writer = await self._leases.open(run.key, wait=self.gate.wait_seconds)
                try:
                    async with asyncio.timeout(SAVING):
                        await self.store.append(writer.lease, entries, release=True)
                except BaseException:
                    await self._leases.release(writer.lease)
                    raise
                run.lease = writer.lease
        except Exception as error:
            logger.warning("run %s: its session could not be kept (%s)", run.run_id, type(error).__name__)
            end = failed(run, RunError("store_unavailable"))
        finally:
            self.scratch.forget(run.key)
        return await tell_outside(run, end)

    def _leases_of(self, ephemeral: bool) -> Leases:
        return self._scratch_leases if ephemeral else self._leases

    def _stop_all(self, reason: StopReason) -> None:
        for runs in list(self._runs.values()):
            for run in runs:
                if reason != "lost" or (run.lease is not None and not run.ephemeral):
                    run.stop.request(reason)

    def _cancel(self, key: SessionKey) -> None:
        """Another worker was asked to stop what this one carries out."""
        for run in self.under_way(key)[:1]:
            run.stop.request("interrupt")

    def _forget(self, run: Run) -> None:
        runs = self._runs[run.key]
        runs.remove(run)
        if not runs:
            del self._runs[run.key]

    def _check_open(self) -> None:
        if self._closed:
            raise RunError("draining", "The engine is closed.")

    def _model_of(self, named: str | Model) -> Model:
        if not isinstance(named, str):
            return named
        model = self._models.get(named)
        if model is None:
            model = self._models[named] = open_model(named)
        return model
