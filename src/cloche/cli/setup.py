"""`cloche setup`: builds the Python environment of sandboxes; `cloche serve` and `cloche run` do so at the first start.

Everything goes to standard error, because standard output belongs to the program, or to MCP.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from cloche.environment.build import Size
    from cloche.environment.progress import Progress

_OFFLINE = (
    "Check the network and pip's settings, or use a folder that was filled elsewhere: `cloche setup --from FOLDER`."
)


def add(commands: Any, shape: dict[str, Any]) -> None:
    parser = commands.add_parser(
        "setup",
        help="build the Python environment of sandboxes",
        description="Builds the Python environment that programs in sandboxes see, with pandas, Matplotlib and others, "
        "or replaces it if it is of the other kind.  `cloche serve` and `cloche run` build it when they first start.  "
        "An interrupted build goes on where it stopped.",
        **shape,
    )
    parser.add_argument("--slim", action="store_true", help="a small environment, with NumPy as its only library")
    parser.add_argument("--quiet", action="store_true", help="say nothing if there is nothing to do")
    parser.add_argument(
        "--shared", action="store_true", help="build it beside the package, for all users, not in your data folder"
    )
    parser.add_argument("--from", dest="source", metavar="FOLDER", help="install from this folder, without a network")
    parser.add_argument(
        "--download", metavar="FOLDER", help="only fill a folder for --from, on a machine with the same Python"
    )


def main(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from cloche.errors import InvalidRun

    if arguments.download is not None and (arguments.source is not None or arguments.shared):
        raise InvalidRun("--download only fills a folder, so --from and --shared make no sense with it.")
    if arguments.download is not None:
        _download(Path(arguments.download), arguments.slim)
        return 0
    source = None if arguments.source is None else Path(arguments.source)
    if source is not None and not source.is_dir():
        raise InvalidRun(f"{source} is not a folder.", hint="`cloche setup --download FOLDER` fills one.")
    target = _target(arguments.shared)
    _build(target, arguments.slim, source)
    speed_up()
    if not arguments.slim:
        _prepare_languages()
    if not arguments.quiet:
        _say(f"The {'slim' if arguments.slim else 'full'} Python environment of sandboxes is ready: {target}")
    return 0


def ensure() -> None:
    """Build the environment if there is none, before the first start."""
    from cloche import environment, settings
    from cloche.environment.build import SLIM

    if settings.environment() or environment.is_built(environment.location()):
        return  # an operator who names a folder fills it by `cloche setup`
    _say(f"`cloche setup --slim` would build a small environment instead ({SLIM.disk_mb} MB, NumPy only).")
    _build(_target(shared=False), slim=False)
    speed_up()


def begin() -> None:
    """Build the environment in the background if there is none: an MCP client does not wait for minutes."""
    from subprocess import DEVNULL, Popen

    from cloche import environment, settings
    from cloche.environment.progress import progress_of

    target = environment.location()
    if settings.environment() or environment.is_built(target) or progress_of(target) is not None:
        return
    # In a session of its own: it goes on when the client ends `cloche mcp`, as many clients do after each call.
    command = [sys.executable, "-m", "cloche.cli.main", "setup"]
    Popen(command, stdin=DEVNULL, stdout=sys.stderr, start_new_session=True)


def _target(shared: bool) -> Path:
    from pathlib import Path

    from cloche import environment, settings

    if shared:
        return Path(*environment.beside_interpreter())
    return Path(environment.location(settings.environment()))


def _build(target: Path, slim: bool, source: Path | None = None) -> None:
    from cloche.environment.build import FULL, SLIM, build, is_complete

    if is_complete(target, slim):
        return
    _announce("Building the Python environment of sandboxes", SLIM if slim else FULL, target, source is None)
    _run(lambda progress: build(target, progress=progress, slim=slim, source=source))


def _download(folder: Path, slim: bool) -> None:
    from cloche.environment.build import FULL, SLIM, download

    _announce("Downloading the Python environment of sandboxes", SLIM if slim else FULL, folder, True)
    _run(lambda progress: download(folder, progress, slim))
    option = " --slim" if slim else ""
    _say(f"Copy the folder to a machine with the same Python, and run `cloche setup{option} --from {folder}` there.")


def _announce(action: str, size: Size, place: Path, downloads: bool) -> None:
    download = f"{size.download_mb} MB to download, " if downloads else ""
    _say(f"{action} (once): about {download}{size.disk_mb} MB on the disk, {size.minutes}.")
    _say(f"  folder: {place}")


def _run(work: Callable[[Progress], None]) -> None:
    from cloche.environment.failure import BuildFailed
    from cloche.errors import Misconfigured

    try:
        if sys.stderr.isatty():
            with _Bar() as bar:
                work(bar)
        else:
            work(_Lines())
    except BuildFailed as failure:
        raise Misconfigured(
            f"The Python environment of sandboxes could not be built: {failure}.",
            hint=_OFFLINE if "downloaded" in str(failure) else "`cloche setup` goes on where it stopped.",
        ) from failure
    except KeyboardInterrupt:
        _say("Interrupted. `cloche setup` goes on where it stopped.")
        raise


class _Lines:
    """Progress as a log."""

    def __init__(self) -> None:
        self._tenths = 0

    def step(self, text: str) -> None:
        _say(f"  {text} …")

    def count(self, ready: int, total: int, size: int) -> None:
        if ready * 10 // total > self._tenths:
            self._tenths = ready * 10 // total
            _say(f"  {ready} of {total} packages, {size >> 20} MB")


class _Bar:
    """Progress as a bar."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._task: Any = None

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, text: str) -> None:
        self._finish()
        self._task = self._progress.add_task(text, total=None, amount="")

    def count(self, ready: int, total: int, size: int) -> None:
        amount = f"{ready} of {total} packages, {size >> 20} MB"
        self._progress.update(self._task, completed=ready, total=total, amount=amount)

    def _finish(self) -> None:
        if self._task is not None:
            self._progress.update(self._task, total=1, completed=1)


def speed_up() -> None:
    """Compile our code and write the bundles; where the package cannot be written, it only starts slower.

    The nursery finds our code on a read-only mount: what is not compiled beforehand is compiled at every start.
    """
    import os
    from compileall import compile_dir

    from cloche import bundles, environment
    from cloche.bundles.__main__ import main as write_bundles
    from cloche.cli import launcher

    library = f"{bundles.ROOT}cloche"
    if os.access(library, os.W_OK):
        compile_dir(library, quiet=2, workers=1)
        write_bundles([])
    if sys.prefix != sys.base_prefix and environment.IS_A_PACKAGE:  # in a clone, make has done it
        launcher.replace()


def _prepare_languages() -> None:
    from cloche import languages
    from cloche.languages import locales
    from cloche.languages.install import prepare

    locales.prepare(_say)
    prepare(languages.everything(), _say)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
