"""What a page of an allowed origin may send and read (the CORS protocol of the Fetch standard)."""

import re

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import Refusal, refused

METHODS = ("GET", "HEAD", "POST", "PATCH", "DELETE")

READABLE = ("Retry-After", "X-Request-Id", "X-Should-Retry")
"""Headers of answers that clients read, beside those that every page may read."""

ASKED = "access-control-request-headers"

LONGEST = 4_096
"""Characters of a preflight's list of headers; that of OpenAI's SDK has about 250."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Cors(CORSMiddleware):
    """Pure ASGI: answers the preflights of pages of these origins, and lets them read the answers.

    Such a page may send any header: libraries have their own, and users add theirs. The answer repeats the names that
    the browser asks for, because `*` does not stand for `Authorization`. A list longer than LONGEST, or one that is
    no list of names, is refused. Nothing here reads cookies, so no credentials are allowed.
    """

    def __init__(self, app: ASGIApp, *, origins: tuple[str, ...]) -> None:
        super().__init__(
            app, allow_origins=origins, allow_methods=METHODS, allow_headers=("*",), expose_headers=READABLE
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "OPTIONS" and not _may_repeat(Headers(scope=scope)):
            answer = refused(
                scope, Refusal(f"A list of at most {LONGEST} characters of header names is needed.", param=ASKED)
            )
            await answer(scope, receive, send)
            return
        await super().__call__(scope, receive, send)


def _may_repeat(headers: Headers) -> bool:
    asked = ",".join(headers.getlist(ASKED))
    return len(asked) <= LONGEST and all(_NAME.fullmatch(name.strip()) for name in asked.split(",") if name.strip())
