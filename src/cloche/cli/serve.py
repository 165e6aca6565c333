"""`cloche serve`: starts the server."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from cloche.service.service import Service


def add(commands: Any, shape: dict[str, Any]) -> None:
    from cloche.configuration import add_flags

    parser = commands.add_parser(
        "serve",
        help="start the server",
        description="Starts the server: HTTP, WebSocket, MCP and the playground on one port.  `cloche config` shows "
        "the resulting configuration.",
        **shape,
    )
    add_flags(parser)


def main(arguments: argparse.Namespace) -> int:
    import gc

    gc.disable()  # until everything is imported (doors/server.py): imports leave no garbage
    from cloche.cli import setup
    from cloche.cli.main import complain
    from cloche.configuration import load_arguments
    from cloche.doors import logs, server

    loaded = load_arguments(arguments)
    for name, meant in loaded.strangers.items():
        complain(f"{name} is not a setting.", f"Did you mean {meant}?")
    configuration = loaded.value
    logs.begin(configuration.log_level, configuration.log_format)

    setup.ensure()

    def ready(address: str, service: Service) -> None:
        key = "" if not configuration.auth else f"/?key={service.admin_key}"
        trouble = service.trouble
        if trouble is None:
            print(f"Cloche is ready at {address}", flush=True)
        else:
            print(f"Cloche is not ready ({address}): {trouble.message} {trouble.details}".rstrip(), flush=True)
            print(f"  to do      {trouble.hint}")
        print(f"  open       {address}{key}")
        print(f"  API        {address}/v1   (reference: /docs, key: `cloche key`)")
        print(f"  MCP        {address}/mcp   (`cloche mcp install --help` shows how to set up a client)")
        print(f"  E2B        {address}   (`cloche e2b` prints the variables for E2B's clients)")
        print(f"  data       {configuration.data_dir}", flush=True)
        if not configuration.auth:
            complain(
                "This server needs no key, so every program on this machine can run code here.",
                "Leave out --no-auth to require a key.",
            )

    server.run(configuration, ready)
    return 0
