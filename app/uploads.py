"""Bodies that are lines of JSON."""

from starlette.requests import Request

from app.errors import BodyTooLarge, Refusal, WrongContentType

LINES = frozenset({"application/x-ndjson", "application/jsonl"})
"""Never text/plain: a page of a foreign origin may send that without asking first (the CORS preflight)."""


class UploadTooLarge(BodyTooLarge):
    def __init__(self, limit: int) -> None:
        Refusal.__init__(self, f"The lines have more than {limit} bytes.")


async def read_lines(request: Request, limit: int) -> bytes:
    """The body, at most `limit` bytes of a type in LINES. Raises WrongContentType and UploadTooLarge."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in LINES:
        raise WrongContentType("The content type must be application/x-ndjson.", param="content-type")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise WrongContentType("A compressed body is not accepted.", param="content-encoding")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limit:
        raise UploadTooLarge(limit)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise UploadTooLarge(limit)
    return bytes(body)
