"""The store that the settings name, opened once."""

from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.store import Store
from app.settings import Settings


class StoreRefused(ValueError):
    """The store cannot be used; the text is one sentence without secrets."""


async def open_store(settings: Settings) -> Store:
    """Open the store, creating or migrating its tables. Raises StoreRefused."""
    if settings.store == "memory":
        return InMemoryStore()
    # Imported here: a server without a database does without SQLAlchemy too.
    from agent_core.sessions.opening import open_store as open_sql
    from agent_core.sessions.sql.failures import StoreError

    try:
        return await open_sql(
            settings.store,
            settings.data_dir,
            lease_seconds=settings.lease_seconds,
            journal_key=settings.journal_key.get_secret_value() or None,
        )
    except StoreError as error:
        raise StoreRefused(str(error)) from error


class Opening:
    """Opens the store once, whoever asks first: the server before it listens, or else the lifespan."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store: Store | None = None

    async def open(self) -> Store:
        """The open store. Raises StoreRefused."""
        if self._store is None:
            self._store = await open_store(self._settings)
        return self._store

    def close(self) -> None:
        """The store was closed; whoever asks again opens it anew."""
        self._store = None
