"""What the server tells about itself: its log."""

import logging

TALKATIVE = ("sse_starlette", "httpx", "httpcore")
"""Libraries that at DEBUG log each chunk that is sent, or the headers of each request to a provider."""


def hold_back_libraries() -> None:
    """Raise the talkative libraries to INFO at least.

    So what users and models say stays out of the log at every level, also if the host application configures it.
    """
    for name in TALKATIVE:
        library = logging.getLogger(name)
        library.setLevel(max(logging.INFO, library.getEffectiveLevel()))


def configure_logging(level: str) -> None:
    """Log to standard error from `level` on. Bodies, prompts and keys stay out of it at every level."""
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for name in TALKATIVE:
        # `create_app` set a level before this one was known.
        logging.getLogger(name).setLevel(logging.NOTSET)
    hold_back_libraries()
    if level != "debug":
        for name in ("httpx", "uvicorn"):
            logging.getLogger(name).setLevel(logging.WARNING)
