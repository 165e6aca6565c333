# Generated from src/cloche/client/one_shot.py by scripts/blocking.py: edit that file instead.
"""A program in a fresh sandbox on a server, which ends with it."""

from __future__ import annotations

from _collections_abc import Mapping, Sequence

from cloche import languages
from cloche.blocking.client.sandbox import RemoteSandbox, the_server
from cloche.client import shapes
from cloche.model.files import Mount
from cloche.model.limits import Limits
from cloche.model.result import Result
from cloche.sandbox.checks import checked_args, checked_code, checked_data, checked_env, checked_files


def run(
    url: str,
    api_key: str | None,
    code: str,
    language: str,
    entry: str | None,
    stdin: str | bytes | None,
    args: Sequence[str],
    env: Mapping[str, str] | None,
    files: Mapping[str, str | bytes] | None,
    limits: Limits,
    mounts: tuple[Mount, ...],
    check: str,
    isolation: str = "auto",
) -> Result:
    """Run a program in a fresh sandbox on a server, which is destroyed with it."""
    data = None if stdin is None else checked_data("stdin", stdin)
    request = {
        "code": checked_code(code),
        "language": languages.find(language).name,
        "entry": entry,
        "check": check,
        "args": checked_args(args),
        "env": checked_env(env),
        "files": {path: shapes.file(contents) for path, contents in checked_files(files)},
        "mounts": shapes.mounts(mounts),
        "isolation": isolation,
        **shapes.limits_asked(limits),
        **shapes.given("stdin", data),
    }
    return shapes.result(the_server(url, api_key).call("POST", "/v1/run", request, timeout=None))


class RemoteOneShot(RemoteSandbox):
    """A sandbox for one program, for who wants to talk with it while it runs: `cloche run`."""

    def let_go(self) -> None:
        """Done with it: nobody waits for the last traces to be cleared away."""
        if self.id is not None and not self._ended:
            self.kill()
