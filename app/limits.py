"""What a request may bring: how large its body is, and in which form."""

from starlette.requests import Request

from app.errors import BodyTooLarge, WrongContentType


async def read_json_body(request: Request, limit: int) -> bytes:
    """The body of a JSON request, not yet parsed, at most `limit` bytes.

    Raises WrongContentType unless the type is `application/json` (parameters are allowed, a charset
    must be UTF-8) without a content encoding, BodyTooLarge as soon as the limit is passed, whatever
    Content-Length says, and starlette's ClientDisconnect, which is answered quietly.
    """
    _check_content_type(request)
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limit:
        raise BodyTooLarge(limit)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise BodyTooLarge(limit)
    return bytes(body)


def _check_content_type(request: Request) -> None:
    media, *parameters = request.headers.get("content-type", "").split(";")
    if media.strip().lower() != "application/json":
        raise WrongContentType("The content type must be application/json.", param="content-type")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8"):
            raise WrongContentType("The charset of a JSON body must be UTF-8.", param="content-type")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise WrongContentType("A compressed body is not accepted.", param="content-encoding")
