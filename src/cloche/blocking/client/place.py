# Generated from src/cloche/client/place.py by scripts/blocking.py: edit that file instead.
"""A server as a place that makes sandboxes."""

from __future__ import annotations

from cloche import settings
from cloche.blocking.client.sandbox import ServerSandbox
from cloche.blocking.client.server import checked_key, server_at
from cloche.client import shapes
from cloche.model.result import Result
from cloche.sandbox.requests import SandboxRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.sandbox.backend import Session
    from cloche.blocking.sandbox.one_shot import Job


class ServerPlace:
    """A Cloche server, by its address; the key is the caller's, or the one in the environment."""

    takes_whole_jobs = True

    def __init__(self, url: str, api_key: str | None, isolation: str = "auto") -> None:
        self._server = server_at(url.rstrip("/"), checked_key(api_key or settings.load().api_key or ""))
        self._isolation = isolation

    def sandbox(self, request: SandboxRequest, session: Session) -> ServerSandbox:
        """Return a sandbox on the server."""
        return ServerSandbox(self._server, request, self._isolation, session)

    def one_shot(self, job: Job) -> ServerSandbox:
        """Return a sandbox for one program, for callers that follow the program while it runs."""
        request = SandboxRequest(
            job.limits,
            job.env,
            job.mounts,
            network=job.network,
            packages=job.packages,
            environment=job.environment,
        )
        return ServerSandbox(self._server, request, self._isolation)

    def run(self, job: Job) -> Result:
        """Run a program in a single request."""
        program = job.program
        body = {
            "code": program.code,
            "language": program.language,
            "entry": program.entry,
            "check": program.check,
            "args": program.args,
            "env": job.env,
            "files": {path: shapes.file(contents) for path, contents in job.files},
            "mounts": shapes.mounts(job.mounts),
            "network": shapes.network_fields(job.network),
            "packages": shapes.packages_fields(job.packages),
            "environment": job.environment,
            "isolation": self._isolation,
            **shapes.limits_fields(job.limits),
            **shapes.given("stdin", job.stdin),
        }
        return shapes.result(self._server.call("POST", "/v1/run", body, timeout=None))
