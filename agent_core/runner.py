"""The life of a run: gate, load, loop, append, release, and one terminal event, however it ends."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from agent_core.admission import Admission
from agent_core.agent import Agent
from agent_core.errors import InvalidRequest, RunError
from agent_core.events import AgentEnd, RunFailed
from agent_core.gate import Gate
from agent_core.histories import Histories
from agent_core.messages import new_id
from agent_core.models.http import HttpClient
from agent_core.names import SessionKey
from agent_core.react.acting import settle
from agent_core.react.endings import End, end_entry, ended, failed, stopped_by
from agent_core.react.lane import Lane
from agent_core.react.loop import react
from agent_core.react.opening.adopt import title_of
from agent_core.react.scope import Sink
from agent_core.react.stopping import Stopped, StopReason
from agent_core.run import Outside, Run
from agent_core.run_input import RunInput
from agent_core.sessions.entries import Addition
from agent_core.sessions.folds import Folds, Viewer
from agent_core.sessions.heartbeat import Heartbeat
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.kinds import TitledBody
from agent_core.sessions.leases import Leases
from agent_core.sessions.store import Cancel, Store
from agent_core.sessions.writer import SAVING, Writer

logger = logging.getLogger(__name__)

LEASE_SECONDS = 30.0
"""How long a worker counts as alive after its last heartbeat."""


class Runner:
    """Carries runs out. It keeps the runs that are under way, so that they can be stopped."""

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
        self._admission = Admission(http)
        self.aside = http.aside
        self.histories = Histories(store, self.aside)
        self._scratch_histories = Histories(self.scratch, self.aside, Folds(most=0))
        self._runs: dict[SessionKey, list[Run]] = {}
        self._tasks: set[asyncio.Task[End]] = set()
        self._closed = False

    async def aclose(self) -> None:
        """Stop the runs under way, wait until they are saved, and close all that is owned. No new run begins."""
        self._closed = True
        self._stop_all("draining")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SAVING)
        await self._admission.aclose()
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
        leases = self._scratch_leases if ephemeral else self._leases
        run = self._admission.make(
            agent, given, key, leases, run_id=run_id, ephemeral=ephemeral, seen=seen, outside=outside
        )
        scope = run.lane.scope
        # Last, when nothing can raise: a place that nobody gives back would block the session for good.
        scope.ticket = self.gate.enter(key, run.run_id)
        scope.waited = not scope.ticket.holds
        self._runs.setdefault(key, []).append(run)
        return run

    def start(self, run: Run, sink: Sink) -> asyncio.Task[End]:
        """See Engine.start."""
        try:
            run.lane.attach(sink)
            loop = asyncio.get_running_loop()
        except BaseException:
            self._forget(run)
            run.lane.scope.ticket.leave()
            raise
        task = loop.create_task(self._carry_out(run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @asynccontextmanager
    async def writing(
        self, key: SessionKey, run_id: str, *, always: bool = True, of: Viewer | None = None
    ) -> AsyncGenerator[Writer, None]:
        """Enter the gate, acquire and release the session as a run does, to write to it. `always` as in the gate. The
        writer knows how the session stands for `of`, if that is given."""
        self._check_open()
        ticket = self.gate.enter(key, run_id, always=always)
        self._writers += 1
        try:
            await ticket.wait()
            wait = self.gate.wait_seconds
            if of is None:
                writer = self._leases.writer(await self._leases.acquire(key, wait=wait))
            else:
                writer = await self.histories.open(self._leases, key, of, wait=wait)
            try:
                async with asyncio.timeout(SAVING):
                    yield writer
            except TimeoutError as error:
                raise RunError("store_unavailable", detail="no answer in time") from error
            finally:
                await self._leases.release(writer.lease)
                self.histories.keep(writer)
        finally:
            self._writers -= 1
            ticket.leave()

    async def _carry_out(self, run: Run) -> End:
        lane, scope = run.lane, run.lane.scope
        end: End = failed(lane, RunError("internal"))
        try:
            end = await self._go(lane)
            if scope.writer is not None:
                end = await self._save(lane, scope.writer, end)
        except Exception:
            logger.exception("run %s could not be ended properly", run.run_id)
        finally:
            if scope.ephemeral:
                end = await self._part(run, end)
            self._forget(run)
            scope.ticket.leave()
            lane.announce()
            lane.emitter.send(end)
        return end

    async def _go(self, lane: Lane) -> End:
        scope = lane.scope
        try:
            if not scope.ticket.holds:
                lane.announce()
                await scope.stop.guard(scope.ticket.wait())
            await self._open(lane)
            return ended(lane, await react(lane))
        except InvalidRequest as error:
            return lane.emitter.make(RunFailed, code="invalid_request", message=error.message, param=error.param)
        except Stopped as stopped:
            return stopped_by(lane, stopped.reason)
        except RunError as error:
            logger.warning("run %s failed: %s (%s)", lane.run_id, error.code, error.detail or "no detail")
            return failed(lane, error)
        except KeyboardInterrupt:
            raise
        except BaseException:  # sys.exit in the user's code, or a cancel that leaked: the run must still tell its end
            logger.exception("run %s failed", lane.run_id)
            return failed(lane, RunError("internal"))

    async def _open(self, lane: Lane) -> None:
        """Become the session's writer and know how it stands. A stop ends the wait for a silent store."""
        scope, of = lane.scope, (lane.agent.name, lane.id)
        try:
            opening = self._histories_of(lane).open(
                scope.leases, scope.key, of, wait=self._patience, waiting=lane.announce
            )
            writer = await scope.stop.guard(opening)
            scope.acquire(writer)
            lane.begin_on(writer.fold.standing)
        except (RunError, Stopped):
            raise
        except Exception as error:
            raise RunError("store_unavailable", detail=type(error).__name__) from error

        if misfits := lane.history.session.changes.misfits:
            logger.warning(
                "run %s: %d stored changes of its session's state do not fit and are passed over; "
                "`ostinato sessions verify` names them",
                lane.run_id,
                misfits,
            )

    def _histories_of(self, lane: Lane) -> Histories:
        return self._scratch_histories if lane.scope.leases is self._scratch_leases else self.histories

    async def _save(self, lane: Lane, writer: Writer, end: End) -> End:
        """Pair the open calls, store the end and release. If writing fails, the run has failed. If only the release
        fails, it has not, because all is stored."""
        scope = lane.scope
        try:
            async with asyncio.timeout(SAVING):
                if not scope.begun:  # no input was taken, so the run leaves no trace
                    await scope.leases.release(writer.lease)
                    self._let_go(lane, writer)
                    return end
                if isinstance(end, RunFailed) or end.status == "cancelled":
                    await settle(lane, keep_asked=isinstance(end, RunFailed))
                lane.announce()  # before the end is numbered
                await writer.append(end_entry(lane, end), release=True)
                self._let_go(lane, writer)
            return end
        except RunError as error:
            end = failed(lane, error)
        except BaseException:
            logger.exception("run %s could not be saved", lane.run_id)
            end = failed(lane, RunError("store_unavailable"))
        await scope.leases.release(writer.lease)
        return end

    def _let_go(self, lane: Lane, writer: Writer) -> None:
        """The session is released, so the history is the next run's."""
        lane.rest()
        self._histories_of(lane).keep(writer)

    async def _part(self, run: Run, end: End) -> End:
        """Forget the ephemeral session. If it waits for somebody, who may take days, move it to the store first."""
        key, lane, scope = run.key, run.lane, run.lane.scope
        try:
            if isinstance(end, AgentEnd) and end.interrupts:
                title = TitledBody(title=title_of(lane.history.messages) or key.session_id)
                copied = [Addition(each) for each in await self.scratch.load(key)]
                writer = self._leases.writer(await self._leases.acquire(key, wait=self.gate.wait_seconds))
                try:
                    await writer.append(*copied, lane.entry(title), release=True)
                except BaseException:
                    await self._leases.release(writer.lease)
                    raise
                scope.writer, scope.ephemeral = writer, False
        except Exception as error:
            logger.warning("run %s: its session could not be kept (%s)", lane.run_id, type(error).__name__)
            end = failed(lane, RunError("store_unavailable"))
        finally:
            self.scratch.forget(key)
        return await self._tell_outside(run, end)

    async def _tell_outside(self, run: Run, end: End) -> End:
        """Tell `outside` that the run has ended. Returns the run's end, which is a failure if `outside` has failed."""
        if run.outside is None:
            return end
        try:
            async with asyncio.timeout(SAVING):
                await run.outside.at_end(run, end)
        except Exception as error:
            logger.warning("run %s: what it leaves could not be kept (%s)", run.run_id, type(error).__name__)
            return failed(run.lane, RunError("store_unavailable"))
        return end

    def _stop_all(self, reason: StopReason) -> None:
        for runs in list(self._runs.values()):
            for run in runs:
                if reason != "lost" or (run.holds and not run.lane.scope.ephemeral):
                    run.stop(reason)

    def _cancel(self, cancel: Cancel) -> None:
        """Stop a run of this worker, as another worker was asked to. The fence tells it from the session's next run."""
        for run in self.under_way(cancel.key):
            writer = run.lane.scope.writer
            if writer is not None and writer.lease.fence == cancel.fence:
                run.stop("interrupt")

    def _forget(self, run: Run) -> None:
        runs = self._runs[run.key]
        runs.remove(run)
        if not runs:
            del self._runs[run.key]

    def _check_open(self) -> None:
        if self._closed:
            raise RunError("draining", "The engine is closed.")
