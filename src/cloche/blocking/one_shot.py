# Generated from src/cloche/engine/one_shot.py by scripts/blocking.py: edit that instead.
"""A program in a fresh sandbox, which ends with it: the shortest way from code to result."""

from __future__ import annotations

from _collections_abc import Mapping, Sequence

from cloche import languages, settings
from cloche.blocking.box import Box, checked_mounts
from cloche.engine.checks import checked_code, checked_data, checked_env, checked_files
from cloche.model.files import Mount
from cloche.model.limits import Limits
from cloche.model.order import Order
from cloche.model.result import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.wall import Wall

LIFETIME_GRACE_S = 5.0  # how much later than the engine the wall ends a one-shot sandbox by itself


def run(
    code: str,
    *,
    language: str | None = "python",
    stdin: str | bytes | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    files: Mapping[str, str | bytes] | None = None,
    timeout: float | None = 30,
    memory: int | str = "512M",
    cpu: float = 1.0,
    disk: int | str = "1G",
    processes: int = 64,
    output: int | str = "10M",
    mounts: Mapping[str, str] | Sequence[Mount] = (),
    wall: Wall | None = None,
    url: str | None = None,
    api_key: str | None = None,
) -> Result:
    """Run a program in a fresh sandbox, which is destroyed with it; on a server, if `url` or CLOCHE_URL names one.

    Without a language (None) it is told from the code.
    """
    language = languages.choose(language, checked_code(code))
    limits = Limits.of(timeout, memory, cpu, disk, processes, output)
    where = settings.load().url if url is None else url
    if where and wall is None:
        from cloche.blocking.remote_one_shot import run as run_there

        folders = checked_mounts(mounts)
        return run_there(where, api_key, code, language, stdin, args, env, files, limits, folders)
    given = None if stdin is None else checked_data("stdin", stdin)
    box = one_shot(checked_code(code), language, limits, checked_env(env), checked_mounts(mounts), wall)
    try:
        for path, data in checked_files(files):
            box.files.write(path, data)
        process = box.start_program(code, language=language, args=args, stdin=given is not None, ends_sandbox=True)
        return process.finish(given)
    finally:
        box.let_go()


def one_shot(
    code: str,
    language: str,
    limits: Limits,
    env: dict[str, str],
    mounts: tuple[Mount, ...],
    wall: Wall | None = None,
) -> OneShot:
    """A sandbox for one program: chosen by what that program imports."""
    imports = languages.find(language).imports(code)
    lifetime = None if limits.timeout_s is None else limits.timeout_s + LIFETIME_GRACE_S
    return OneShot(Order(limits, mounts, imports, lifetime), env, wall)


class OneShot(Box):
    """A sandbox that ends with its program."""

    def let_go(self) -> None:
        """Done with it: nobody waits for the last traces to be cleared away."""
        self._ended = True
        if self._hold is not None:
            self._hold.abandon()
