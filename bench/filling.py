"""Sessions that were there before: written through the store, as runs would have written them."""

import asyncio
from collections.abc import Sequence

from agent_core.messages import Message
from agent_core.names import SessionKey
from agent_core.sessions.entries import entry_of
from agent_core.sessions.kinds import EndBody, MessageBody, RunBody
from agent_core.sessions.store import Store

AT_ONCE = 100


async def fill(store: Store, sessions: Sequence[str], *, turns: int, agent: str) -> None:
    """Write these sessions with so many questions and answers each. Those that have entries stay as they are."""
    for at in range(0, len(sessions), AT_ONCE):
        await asyncio.gather(*(_write(store, each, turns, agent) for each in sessions[at : at + AT_ONCE]))


async def _write(store: Store, session: str, turns: int, agent: str) -> None:
    lease = await store.acquire(SessionKey(user_id="local", session_id=session), "filling")
    assert lease is not None
    if lease.head:
        await store.release(lease)
        return
    said = []
    for number in range(turns):
        said.append(Message(id=f"u{number}", role="user", content=f"Question {number}: how does this go on?"))
        said.append(Message(id=f"a{number}", role="assistant", content=f"Answer {number}: as it did before. " * 3))
    talk = (MessageBody(agent=agent, message=each) for each in said)
    bodies = [RunBody(agent=agent), *talk, EndBody(status="completed")]
    await store.append(lease, [entry_of("r", body) for body in bodies], release=True)
