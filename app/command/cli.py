"""The command line: `ostinato serve [TARGET]`, `ostinato chat [TARGET_OR_URL]` and `ostinato sessions …`."""

import socket
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from app.command.sessions import sessions

# Each command imports what it needs, so that `--version` and `--help` answer at once.


class OneSentence(click.ClickException):
    """What is wrong, as one sentence without a traceback; exit code 1."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("ostinato"), prog_name="ostinato")
def cli() -> None:
    """Ostinato: an agent server. It streams a ReAct loop, step by step, as AG-UI."""


cli.add_command(sessions)


@cli.command()
@click.argument("target", required=False)
@click.option("--host", help="Where to listen (OSTINATO_HOST; default 127.0.0.1).")
@click.option("--port", type=int, help="The port, 0 for a free one (OSTINATO_PORT; default 8000).")
@click.option("--model", help="provider:model for all agents instead of their own (OSTINATO_MODEL).")
@click.option(
    "--store", help="Where sessions live: sqlite, memory or a postgresql:// URL (OSTINATO_STORE; default sqlite)."
)
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="The server's files (OSTINATO_DATA_DIR; default .ostinato)."
)
def serve(target: str | None, **options: Any) -> None:
    """Serve the agents of TARGET, my_agents.py or package.module:agents; the demo's without one."""
    from agent_core.errors import StoreError
    from app.agents import AgentsError
    from app.auth import BindRefused, KeysError
    from app.server import ListenError
    from app.settings import SettingsError

    try:
        _serve(target, options)
    except (SettingsError, KeysError, BindRefused, AgentsError, ListenError, StoreError) as exc:
        raise OneSentence(str(exc)) from None


@cli.command()
@click.argument("target", required=False, metavar="[TARGET_OR_URL]")
@click.option("--agent", help="The agent's name; the default agent without it.")
@click.option("--session", help="The session to go on with; a new one without it.")
@click.option("--key", help="The server's API key (OSTINATO_API_KEY).")
@click.option("-m", "--message", help="Ask this, show the answer and leave; exit code 1 where it fails.")
@click.pass_context
def chat(context: click.Context, /, target: str | None, **options: Any) -> None:
    """Talk to a running server (http://…), or to the agents of TARGET without one; the demo's by default."""
    from app.agents import AgentsError
    from app.command.chat import ChatError, open_chat
    from app.command.env_file import load_env_file
    from app.settings import SettingsError

    message = options.pop("message")
    try:
        load_env_file(Path.cwd() / ".env")
        with open_chat(target, **options) as talk:
            code = talk.converse() if message is None else talk.ask(message)
    except (SettingsError, AgentsError, ChatError) as exc:
        raise OneSentence(str(exc)) from None
    context.exit(code)


def _serve(target: str | None, options: Mapping[str, Any]) -> None:
    from app.agents import load, names_of
    from app.command.env_file import load_env_file
    from app.main import create_app
    from app.server import bind, serve
    from app.settings import read_settings

    load_env_file(Path.cwd() / ".env")
    settings = read_settings(options)
    loaded = load(target)
    app = create_app(settings, agents=loaded.agents, converters=loaded.converters)
    sockets = bind(settings.host, settings.port)
    agents, keyed = names_of(loaded.agents), bool(settings.read_keys())
    serve(app, settings, sockets, lambda: _announce(settings.host, sockets, agents, keyed))


def _announce(host: str, sockets: Sequence[socket.socket], agents: str, keyed: bool) -> None:
    from app.routes.page import curl_line

    base = f"http://{f'[{host}]' if ':' in host else host}:{sockets[0].getsockname()[1]}"
    who = "with a key" if keyed else "without keys, this machine only"
    click.echo(f"Ostinato {version('ostinato')} listens on {base} ({who}).")
    click.echo(f"Agents: {agents}")
    click.echo(f"Try: {curl_line(base, keyed=keyed, question='hello')}")
