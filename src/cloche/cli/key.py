"""`cloche key`: prints the admin key of the server on this host."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def add(commands: Any, shape: dict[str, Any]) -> None:
    from cloche.configuration import add_flags

    parser = commands.add_parser(
        "key",
        help="print the admin key of the server on this host",
        description="Prints the admin key.  A server creates it in its data directory when it first starts.",
        **shape,
    )
    add_flags(parser, ("data_dir",))


def main(arguments: argparse.Namespace) -> int:
    from cloche.configuration import load_arguments
    from cloche.errors import Misconfigured
    from cloche.policy import key_file

    folder = load_arguments(arguments).value.data_dir
    secret = key_file.read(folder / "key", of_anybody=True)
    if secret is None:
        raise Misconfigured(
            f"There is no key in {folder}: no server has been started with this data directory yet.",
            hint="Start a server with `cloche serve`, or name its data directory with --data-dir or CLOCHE_DATA_DIR.",
        )
    print(secret)
    return 0
