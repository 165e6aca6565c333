"""`cloche serve`: Cloche as a server, for any client."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from cloche.service.service import Service


def add(commands: Any, shape: dict[str, Any]) -> None:
    """The command's options."""
    from cloche.configuration import add_flags

    parser = commands.add_parser(
        "serve",
        help="start the server",
        description="Starts the server: HTTP, WebSocket and MCP on one port.  `cloche config` explains the options.",
        **shape,
    )
    add_flags(parser)


def main(arguments: argparse.Namespace) -> int:
    """Serve until told to stop; the exit code."""
    import gc

    gc.disable()  # until all is loaded (doors/server.py): nothing of it is garbage
    from cloche.cli.main import complain
    from cloche.configuration import load_arguments
    from cloche.doors import logs, server

    loaded = load_arguments(arguments)
    for name, meant in loaded.strangers.items():
        complain(f"{name} is not a setting.", f"Did you mean {meant}?")
    configuration = loaded.value
    logs.begin(configuration.log_level, configuration.log_format)

    def ready(address: str, service: Service) -> None:
        key = "" if not configuration.auth else f"/?key={service.admin_key}"
        print(f"Cloche is ready at {address}", flush=True)
        print(f"  open       {address}{key}")
        print(f"  API        {address}/v1   (described at /docs; the key: `cloche key`)")
        print(f"  MCP        {address}/mcp   (`cloche mcp install --help` sets clients up)")
        print(f"  E2B        {address}   (`cloche e2b` prints what its clients want to know)")
        print(f"  data       {configuration.data_dir}", flush=True)
        if not configuration.auth:
            complain("No key is asked for: every program on this machine can run code here.", "Leave out --no-auth.")

    server.run(configuration, ready)
    return 0
