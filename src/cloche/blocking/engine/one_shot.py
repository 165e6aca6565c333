# Generated from src/cloche/engine/one_shot.py by scripts/blocking.py: edit that file instead.
"""A program in a fresh sandbox, which ends with it: the shortest way from code to result."""

from __future__ import annotations

from _collections_abc import Mapping, Sequence

from cloche import languages, settings
from cloche.blocking.engine import default
from cloche.blocking.engine.box import Box
from cloche.model.files import Mount
from cloche.model.limits import Limits
from cloche.model.order import Order
from cloche.model.result import Result
from cloche.sandbox.checks import checked_code, checked_data, checked_env, checked_files, checked_mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.walls.wall import Wall
    from cloche.sandbox.checks import Data

LIFETIME_GRACE_S = 5.0  # how much later than the engine the wall ends a one-shot sandbox by itself


def run(
    code: str | None = None,
    *,
    language: str | None = "python",
    entry: str | None = None,
    stdin: str | bytes | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    files: Mapping[str, str | bytes] | None = None,
    timeout: float | None = 30,
    build_timeout: float | None = 60,
    check: str = "report",
    memory: int | str = "512M",
    cpu: float = 1.0,
    disk: int | str = "1G",
    processes: int = 64,
    output: int | str = "10M",
    mounts: Mapping[str, str] | Sequence[Mount] = (),
    isolation: str = "auto",
    wall: Wall | None = None,
    url: str | None = None,
    api_key: str | None = None,
) -> Result:
    """Run a program in a fresh sandbox, which is destroyed with it; on a server, if `url` or CLOCHE_URL names one.

    Without a language (None) it is told from the code.  A project is `files` and the `entry` among them, which may be
    left out where it is plain.  `isolation` says where it runs: "auto", "jail", or "e2b" (docs/e2b.md); a `wall` of
    your own goes before.
    """
    limits = Limits.of(timeout, memory, cpu, disk, processes, output, build_timeout)
    written = checked_files(files)
    code, language, entry = what_to_run(code, language, entry, dict(written))
    where = settings.server() if url is None else url
    if where and wall is None:
        from cloche.blocking.client.one_shot import run as run_there

        folders = checked_mounts(mounts)
        return run_there(
            where, api_key, code, language, entry, stdin, args, env, files, limits, folders, check, isolation
        )
    given = None if stdin is None else checked_data("stdin", stdin)
    kept = wall or default.wall(isolation)
    box = one_shot(code, language, limits, checked_env(env), checked_mounts(mounts), kept)
    try:
        for path, data in written:
            box.files.write(path, data)
        process = box.start_program(
            code,
            language=language,
            entry=entry,
            args=args,
            check=check,
            stdin=given is not None,
            ends_sandbox=True,
            files=[path for path, _ in written] or None,
        )
        return process.finish(given)
    finally:
        box.let_go()


def what_to_run(
    code: str | None, language: str | None, entry: str | None, files: Mapping[str, Data]
) -> tuple[str, str, str | None]:
    """The source, its language, and where it belongs among the files (None: where all programs go)."""
    if code is not None:
        code, label = checked_code(code), ""
        if language is None:
            from cloche.languages.fences import unfenced

            code, label = unfenced(code)
        language = languages.choose(language, code, entry, label)
        if files and entry is None:
            from cloche.languages.entry import place_among

            entry = place_among(languages.find(language), files)
        return code, language, entry
    from cloche.languages.entry import choose_entry

    if language == "python" and entry:  # unless somebody said otherwise: the entry's name does
        language = languages.by_name(entry) or language
    elif language == "python" and not any(languages.by_name(name) == "python" for name in files):
        language = None
    language, entry = choose_entry(language, entry, list(files), files)
    return bytes(files[entry]).decode("utf-8", "surrogateescape"), language, entry


def one_shot(
    code: str,
    language: str,
    limits: Limits,
    env: dict[str, str],
    mounts: tuple[Mount, ...],
    wall: Wall | None = None,
) -> OneShot:
    """A sandbox for one program: chosen by what that program imports."""
    spoken = languages.find(language)
    imports = spoken.imports(code)
    lifetime = None if limits.timeout_s is None else limits.timeout_s + LIFETIME_GRACE_S
    if lifetime is not None and not spoken.warm:
        from cloche.engine.building import CHECK_S

        lifetime = None if limits.build_timeout_s is None else lifetime + limits.build_timeout_s + CHECK_S
    return OneShot(Order(limits, mounts, imports, lifetime), env, wall)


class OneShot(Box):
    """A sandbox that ends with its program."""

    def let_go(self) -> None:
        """Done with it: nobody waits for the last traces to be cleared away."""
        self._ended = True
        if self._hold is not None:
            self._hold.abandon()
