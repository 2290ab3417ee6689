"""The payloads of an event stream, read from its bytes without any I/O."""

from agent_core.errors import ModelError

MAX_LINE = 1_000_000
"""Bytes of one line at most."""

MAX_STREAM = 64_000_000
"""Bytes of a whole stream at most. It is large because each piece of a few letters has some 300 bytes of JSON around
it. The decoder bounds the answer itself."""

BOM = b"\xef\xbb\xbf"


class SseLines:
    """Takes the bytes of an event stream and gives its `data` payloads (WHATWG HTML, 9.2.6).

    - A line ends with LF, CRLF or CR, and with nothing else: JSON may hold a raw U+2028.
    - LF joins the `data` lines of an event. An empty line ends the event.
    - Comments and all other fields are skipped, and so is an event without data.
    - A byte order mark at the start is dropped. An event that the end of the stream cuts off still counts.

    Raises ModelError model_bad_answer for a line over MAX_LINE and a stream over MAX_STREAM.
    """

    __slots__ = ("_after_cr", "_data", "_partial", "_partial_size", "_start", "_total")

    def __init__(self) -> None:
        self._start: bytes | None = b""
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._after_cr = False
        self._data: list[bytes] = []
        self._total = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that are complete now, in order; often none."""
        self._total += len(chunk)
        if self._total > MAX_STREAM:
            raise too_long("the stream", MAX_STREAM)
        if self._start is not None:
            chunk = self._start + chunk
            if len(chunk) < len(BOM) and BOM.startswith(chunk):
                self._start = chunk
                return []
            self._start = None
            chunk = chunk.removeprefix(BOM)
        if self._after_cr or b"\r" in chunk:
            chunk = self._only_lf(chunk)
        if not self._partial and not self._data and chunk.startswith(b"data: ") and chunk.endswith(b"\n\n"):
            # The quick way: nearly every read of nearly every provider holds whole events of one line.
            payloads = chunk[6:-2].split(b"\n\ndata: ")
            if chunk.count(b"\n") == 2 * len(payloads) and len(chunk) < MAX_LINE and b"" not in payloads:
                return payloads
        lines = chunk.split(b"\n")
        tail = lines.pop()
        if lines and self._partial:
            self._partial.append(lines[0])
            lines[0] = b"".join(self._partial)
            self._partial.clear()
            self._partial_size = 0
        if tail:
            # Join the parts only once, so that a long line which comes byte by byte costs linear time.
            self._partial.append(tail)
            self._partial_size += len(tail)
            if self._partial_size > MAX_LINE:
                raise too_long("a line", MAX_LINE)
        return self._payloads(lines) if lines else []

    def close(self) -> list[bytes]:
        """The payloads that the end of the stream completes."""
        last = (self._start or b"") + b"".join(self._partial)
        self._start = None
        self._partial.clear()
        return self._payloads([last, b""])

    def _payloads(self, lines: list[bytes]) -> list[bytes]:
        payloads: list[bytes] = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    payloads.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
            elif line.startswith(b"data:"):
                if len(line) > MAX_LINE:
                    raise too_long("a line", MAX_LINE)
                value = line[6:] if line.startswith(b"data: ") else line[5:]
                if value:
                    data.append(value)
        return payloads

    def _only_lf(self, chunk: bytes) -> bytes:
        if not chunk:
            return chunk
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def too_long(what: str, limit: int, unit: str = "bytes") -> ModelError:
    return ModelError("model_bad_answer", detail=f"{what} is longer than {limit} {unit}")
