"""Who is calling, and whether they may come in at all.

The credential alone names the user, never another header or the body. Keys are kept as SHA-256 and compared in
constant time against all users. Without keys everybody is `local`, and the server is for this machine only: it binds
to loopback, and HostCheck refuses browsers that came by a foreign name (DNS rebinding) or from a foreign page.
"""

import hashlib
import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import Forbidden, Refusal, Unauthorized, refused

LOCAL_USER = "local"
"""The user of every request on a server without keys."""

SHORTEST_KEY = 16
"""Characters; `openssl rand -hex 16` gives 32."""

PROBES = frozenset({"/healthz", "/readyz"})
"""Paths that load balancers ask by address and without a key; their answers hold no data."""

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

DEFAULT_PORTS = {"http": "80", "https": "443"}


class KeysError(ValueError):
    """The keys cannot be used; the text is one sentence without any key in it."""


class BindRefused(ValueError):
    """The address is open to others, and no key is set; the text is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The users and the SHA-256 of their keys; empty for a server without keys."""

    digests: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, api_keys: str = "", api_key: str = "") -> "Keys":
        """Read `alice:KEY,bob:KEY`, and the one key of the user `default`. Raises KeysError."""
        digests: dict[str, bytes] = {}
        entries = [entry.strip() for entry in api_keys.split(",") if entry.strip()]
        for number, entry in enumerate(entries, start=1):
            user, colon, key = entry.partition(":")
            if not colon:
                raise KeysError(f"OSTINATO_API_KEYS: entry {number} is not of the form name:KEY.")
            if not re.fullmatch(r"[A-Za-z0-9._@-]{1,64}", user):
                raise KeysError(f"OSTINATO_API_KEYS: the name of entry {number} is not 1 to 64 of A-Z a-z 0-9 . _ @ -.")
            _add(digests, user, key, "OSTINATO_API_KEYS")
        if api_key.strip():
            _add(digests, "default", api_key.strip(), "OSTINATO_API_KEY")
        return cls(digests=digests)

    def __bool__(self) -> bool:
        return bool(self.digests)

    def user_of(self, header: str | None) -> str:
        """The user of an Authorization header; `local` if no keys are set.

        Raises Unauthorized if the header is missing or malformed, or its key is unknown.
        """
        if not self.digests:
            return LOCAL_USER
        scheme, _, key = (header or "").partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized
        digest = _digest(key.strip())
        found = None
        for user, known in self.digests.items():
            # No early exit: the time must not tell which user's key it was.
            if hmac.compare_digest(known, digest):
                found = user
        if found is None:
            raise Unauthorized
        return found


def _add(digests: dict[str, bytes], user: str, key: str, setting: str) -> None:
    if user in digests:
        raise KeysError(f"{setting}: the user {user!r} has two keys, but only one is possible.")
    if len(key) < SHORTEST_KEY:
        raise KeysError(
            f"{setting}: the key of {user!r} has {len(key)} characters, but at least {SHORTEST_KEY} are needed."
        )
    if not re.fullmatch(r"[!-~]+", key):
        raise KeysError(f"{setting}: the key of {user!r} has characters that no header can carry.")
    digest = _digest(key)
    if digest in digests.values():
        raise KeysError(f"{setting}: two users have the same key.")
    digests[user] = digest


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="replace")).digest()


def user_of(request: Request) -> str:
    """The user of a request, as Authenticate has found it."""
    return str(request.state.user_id)


class Authenticate:
    """Pure ASGI: finds the user of each request, or answers 401. `/healthz` and `/readyz` are open."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self.app = app
        self.keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in PROBES:
            try:
                user = self.keys.user_of(Headers(scope=scope).get("authorization"))
            except Unauthorized as refusal:
                await refused(scope, refusal)(scope, receive, send)
                return
            scope.setdefault("state", {})["user_id"] = user
        await self.app(scope, receive, send)


class HostCheck:
    """Pure ASGI: answers 403 to a Host or an Origin that is not allowed.

    - Host: without keys a loopback name or one of `hosts`; with keys anything, unless `hosts` is set
    - Origin, if any: the same host and port as Host, or one of `origins`
    """

    def __init__(self, app: ASGIApp, *, keyless: bool, hosts: tuple[str, ...], origins: tuple[str, ...]) -> None:
        self.app = app
        self.keyless = keyless
        self.hosts = frozenset(hosts)
        self.origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in PROBES:
            refusal = self.judge(Headers(scope=scope))
            if refusal is not None:
                await refused(scope, refusal)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def judge(self, headers: Headers) -> Refusal | None:
        """What is wrong with the request's Host or Origin; None if nothing is."""
        hosts = headers.getlist("host")
        if len(hosts) > 1:
            return Forbidden("A request has one Host (RFC 9112, section 3.2).", param="host")
        host = "".join(hosts).strip().lower()
        if not self._knows(host):
            return Forbidden(f"The host {host!r} is not allowed: name it in OSTINATO_ALLOWED_HOSTS.", param="host")
        origin = headers.get("origin")
        if origin is None or origin.lower() in self.origins or (host and _authority_of(origin.lower()) == host):
            return None
        return Forbidden(
            f"Pages of the origin {origin!r} may not call: name it in OSTINATO_ALLOWED_ORIGINS.", param="origin"
        )

    def _knows(self, host: str) -> bool:
        if not self.keyless and not self.hosts:
            return True
        name = _name_of(host)
        return name in self.hosts or (self.keyless and is_loopback(name))


def _name_of(host: str) -> str:
    """The name in a Host header, without port and brackets; empty if it is malformed."""
    match = re.fullmatch(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:/@\s]+))(?::\d{1,5})?", host)
    return (match[1] or match[2]) if match else ""


def _authority_of(origin: str) -> str:
    """The Host header of a page's own server: without the port if that is the scheme's default."""
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in DEFAULT_PORTS:
        return ""
    if str(port) == DEFAULT_PORTS[parts.scheme]:
        return parts.netloc.rpartition(":")[0]
    return parts.netloc


def is_loopback(name: str) -> bool:
    """Whether a host name or an address means this machine, without asking a resolver."""
    if name in LOOPBACK_NAMES:
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def check_bind(host: str, keys: Keys) -> None:
    """Refuse to listen beyond loopback without keys. Resolves names; an unknown one counts as open.

    Raises BindRefused.
    """
    if keys:
        return
    try:
        found = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise BindRefused(f"The host {host!r} cannot be resolved: check --host or OSTINATO_HOST.") from None
    if not all(is_loopback(str(address[0]).partition("%")[0]) for *_, address in found):
        raise BindRefused(
            f"Listening on {host or 'all addresses'} would let others in: "
            "set OSTINATO_API_KEYS (or OSTINATO_API_KEY) first, or listen on 127.0.0.1."
        )
