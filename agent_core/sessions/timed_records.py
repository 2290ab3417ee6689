"""Records with a time limit: the store has SAVING seconds for each answer."""

from collections.abc import Mapping, Sequence

from agent_core.sessions.leases import answer_of
from agent_core.sessions.records import Record, Records


class TimedRecords:
    """The same records. If the store is silent, each method raises RunError `store_unavailable`."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def claim(
        self, user_id: str, name: str, value: bytes, *, owner: str, seconds: float, instead: bytes | None = None
    ) -> Record | None:
        return await answer_of(self._records.claim(user_id, name, value, owner=owner, seconds=seconds, instead=instead))

    async def keep(
        self,
        user_id: str,
        name: str,
        value: bytes,
        *,
        seconds: float,
        session_id: str = "",
        held_by: str | None = None,
        owner: str | None = None,
    ) -> bool:
        return await answer_of(
            self._records.keep(
                user_id, name, value, seconds=seconds, session_id=session_id, held_by=held_by, owner=owner
            )
        )

    async def recall(self, user_id: str, names: Sequence[str]) -> Mapping[str, Record]:
        return await answer_of(self._records.recall(user_id, names))

    async def discard(self, user_id: str, name: str, *, held_by: str | None = None) -> None:
        await answer_of(self._records.discard(user_id, name, held_by=held_by))

    async def expire(self) -> int:
        return await answer_of(self._records.expire())
