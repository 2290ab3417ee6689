"""`ostinato chat`: a terminal client of a running server, or of agents that run in this process.

It shows the answer as it comes: thinking dimmed, tool calls and results on a line each, errors on standard error. A
person at a terminal is asked about the calls that need approval. Ctrl-C stops the running answer: over HTTP by closing
the stream, in this process by leaving the run. A named session lasts: on the server, or in the settings' store.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from urllib.parse import quote

import httpx

from agent_core.engine import Engine
from agent_core.errors import StoreError
from agent_core.messages import new_id, well_formed
from agent_core.models.base import Timeouts
from agent_core.names import SESSION_ID
from app.agents import Roster, load
from app.command.approvals import Answer, Interrupt, ask_about, in_words, interrupts_in, is_approval
from app.command.screen import Screen
from app.command.server_client import Failure, Frame, Here, Partner, ServerClient
from app.errors import NotFound
from app.settings import Settings, read_settings
from app.telemetry import configure_logging

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells count: 128 and the signal's number."""

WAITING = 3
"""The exit code if a call waits for an answer that is not given here."""

REFUSED = "invalid_request"
"""The code of a failure of a request that cannot be used."""

TIMEOUT = httpx.Timeout(10.0, read=120.0)
"""Seconds; a server that works says something every few seconds, at least a comment."""


class ChatError(ValueError):
    """The conversation cannot begin; the text is one sentence."""


class Chat:
    """A conversation on a terminal, turn by turn in one event loop."""

    def __init__(self, partner: Partner, runner: asyncio.Runner, screen: Screen) -> None:
        self._partner = partner
        self._runner = runner
        self._screen = screen
        self._waiting: list[Interrupt] = []
        self._refused = False

    def ask(self, text: str) -> int:
        """Ask, and show the answer as it comes.

        On a terminal the person is asked about the calls that need approval, again if an answer cannot be used, and
        the run goes on. Returns the exit code: 0, 1 if it failed, 3 if something waits, 130 after Ctrl-C.
        """
        try:
            code = self._runner.run(self._show(self._partner.ask(well_formed(text))))
            while self._waiting and not code:
                asked, answers = self._waiting, self._decide()
                if not answers:
                    return WAITING
                code = self._runner.run(self._show(self._partner.resume(answers)))
                if self._refused:  # nothing of it was used up
                    self._waiting, code = asked, 0
            return code
        except KeyboardInterrupt:
            self._screen.note("interrupted")
            return INTERRUPTED

    def converse(self) -> int:
        """Read questions to the end of the input, or /exit. Ctrl-C stops the answer and asks again.

        Without a terminal a call that waits ends the conversation: the next line of a pipe does not answer it.
        """
        if self._screen.interactive:
            # The import alone gives line editing; not every system has the module.
            with_readline()
        while True:
            try:
                text = self._screen.read()
            except KeyboardInterrupt:
                self._screen.end_line()
                continue
            if text is None or text.strip() in ("/exit", "/quit"):
                return 0
            if text.strip() and self.ask(text) == WAITING and not self._screen.interactive:
                return WAITING

    def _decide(self) -> list[Answer]:
        """The person's answers to all calls that need one; empty without a terminal, or if one is left open."""
        approvals = [each for each in self._waiting if is_approval(each)] if self._screen.interactive else []
        answers: list[Answer] = []
        for each in approvals:
            answer = ask_about(each, self._screen)
            if answer is None:
                break
            answers.append(answer)
        if answers and len(answers) == len(approvals):
            return answers
        for each in self._waiting:
            self._screen.note(in_words(each))
        return []

    async def _show(self, run: AsyncGenerator[Frame, None]) -> int:
        self._waiting, self._refused = [], False
        try:
            async with aclosing(run) as frames:
                async for frame in frames:
                    self._waiting += interrupts_in(frame)
                    self._refused = frame.get("type") == "RUN_ERROR" and frame.get("code") == REFUSED
                    self._screen.show(frame)
        except Failure as failure:
            self._refused = failure.code == REFUSED
            self._screen.fail(failure.code, failure.message)
        return self._screen.finish()


def with_readline() -> None:
    """Give `input` its line editing, if the system has it."""
    try:
        import readline  # noqa: F401
    except ImportError:
        pass


@contextmanager
def open_chat(
    target: str | None, *, agent: str | None = None, session: str | None = None, key: str | None = None
) -> Iterator[Chat]:
    """A conversation with the server at an http(s) URL, or with the agents of a target (None: the demo's).

    - agent: its name, None for the default one
    - session: the session's id, None for a new one, which is in memory without a server
    - key: the server's API key, None for that of OSTINATO_API_KEY

    Raises ChatError, AgentsError or SettingsError.
    """
    if session is not None and not SESSION_ID.fullmatch(session):
        raise ChatError("--session: 1 to 128 of A-Z a-z 0-9 . _ : - are allowed.")
    with asyncio.Runner() as runner:
        if target is not None and target.startswith(("http://", "https://")):
            named = session or new_id("chat")
            partner: Partner = _server(target, agent, named, key or os.environ.get("OSTINATO_API_KEY", ""))
        else:
            partner = _here(target, agent, session, runner)
        try:
            yield Chat(partner, runner, Screen(sys.stdin, sys.stdout, sys.stderr))
        finally:
            runner.run(partner.aclose())


def _server(url: str, agent: str | None, session: str, key: str) -> ServerClient:
    base = url.rstrip("/").removesuffix("/agui")
    path = "/agui" if agent is None else f"/agui/{quote(agent, safe='')}"
    # Ctrl-C is a disconnect, and the answer is not wanted then.
    headers = {"accept": "text/event-stream", "x-on-disconnect": "cancel"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    try:
        http = httpx.AsyncClient(headers=headers, timeout=TIMEOUT)
    except (ValueError, ImportError) as error:
        raise ChatError(f"The key or the proxy settings cannot be used: {type(error).__name__}.") from None
    return ServerClient(url=base + path, http=http, session=session)


def _here(target: str | None, name: str | None, session: str | None, runner: asyncio.Runner) -> Here:
    settings = read_settings()
    loaded = load(target)
    roster = Roster(loaded.agents)
    if settings.model is not None:
        roster = roster.with_model(settings.model)
    roster.check_models()
    try:
        agent = roster.get(name)
    except NotFound:
        known = ", ".join(each.name for each in roster.agents)
        raise ChatError(f"There is no agent named {name!r}: known are {known}.") from None
    # The screen shows a failed run; only the log has a tool's traceback.
    configure_logging(settings.log_level if "log_level" in settings.model_fields_set else "error")

    engine = runner.run(_engine(settings, lasts=session is not None))
    return Here(engine=engine, agent=agent, converters=loaded.converters, session=session or new_id("chat"))


async def _engine(settings: Settings, *, lasts: bool) -> Engine:
    """An engine on the settings' store if the session lasts, else on memory. Raises ChatError."""
    try:
        store = await settings.storage().open() if lasts else None
    except StoreError as refusal:
        if "in use" in str(refusal):
            where = f"The data directory {settings.data_dir} is in use by a server"
            raise ChatError(f"{where}: give its URL instead, as in ostinato chat http://127.0.0.1:8000.") from None
        raise ChatError(str(refusal)) from None
    return Engine(
        store=store, timeouts=Timeouts(idle=settings.model_idle_seconds), lease_seconds=settings.lease_seconds
    )
