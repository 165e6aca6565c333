"""`cloche key`: the admin's key of the server on this host."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def add(commands: Any, shape: dict[str, Any]) -> None:
    """The command's options."""
    from cloche.configuration import add_flags

    parser = commands.add_parser(
        "key",
        help="print the admin's key of the server on this host",
        description="Prints the admin's key, which the first start of a server has made in its data directory.",
        **shape,
    )
    add_flags(parser, ("data_dir",))


def main(arguments: argparse.Namespace) -> int:
    """Print it; the exit code."""
    from cloche.configuration import load_arguments
    from cloche.errors import Misconfigured
    from cloche.policy import key_file

    folder = load_arguments(arguments).value.data_dir
    secret = key_file.read(folder / "key", of_anybody=True)
    if secret is None:
        raise Misconfigured(
            f"There is no key in {folder}: no server has been started there yet.",
            hint="Start one with `cloche serve`, or say where its data is: --data-dir or CLOCHE_DATA_DIR.",
        )
    print(secret)
    return 0
