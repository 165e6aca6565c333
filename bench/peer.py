"""A plugin for a script that compares sandboxes (`python -m bench --peers SCRIPT`): Cloche as one of its peers.

The script runs under an interpreter of its own, with the libraries of all peers; Cloche runs under ours, in a process
of its own that times itself, as every peer does that lives inside a host process.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import ClassVar

from peers import Peer, Sample, Session  # type: ignore[import-not-found]

sys.path.append(str(Path(__file__).resolve().parents[1]))
from bench.engine import REPOSITORY, Engine  # found by the line above

PYTHON = REPOSITORY / ".venv" / "bin" / "python"


class Live(Session):  # type: ignore[misc]
    """A session: a sandbox that stays alive between runs."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._name = engine, uuid.uuid4().hex
        engine.ask("open", session=self._name)

    def run(self, code: str) -> str:
        return self.timed(code)[0]

    def timed(self, code: str) -> tuple[str, float]:
        answer = self._engine.ask("turn", session=self._name, code=code)
        return answer["output"], answer["run"]

    def close(self) -> None:
        self._engine.ask("close", session=self._name)


class Cloche(Peer):  # type: ignore[misc]
    name = "cloche"
    isolation = "namespaces, seccomp, Landlock, cgroups"
    fresh_is = "new sandbox from the pool (of two)"
    sessions_are = "IPython kernel in a sandbox"
    settings: ClassVar = {"CLOCHE_POOL": "2"}

    def available(self) -> str | None:
        return None if PYTHON.exists() else f"{PYTHON} is not there (make install)"

    def version(self) -> str:
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("cloche")
        except PackageNotFoundError:  # under the peers' interpreter: ask the source
            source = (REPOSITORY / "src" / "cloche" / "__init__.py").read_text()
            return source.partition('__version__ = "')[2].partition('"')[0]

    def prepare(self) -> None:
        self.engine = Engine(str(PYTHON), **self.settings)

    def close(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()

    def fresh(self, code: str) -> Sample:
        answer = self.engine.ask("fresh", code=code)
        return Sample(answer["output"], answer["run"], answer["teardown"])

    def session(self) -> Session:
        return Live(self.engine)


class ClocheCold(Cloche):
    name = "cloche-cold"
    fresh_is = "new sandbox, made on demand"
    settings: ClassVar = {"CLOCHE_POOL": "0"}
