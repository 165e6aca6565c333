# Generated from src/cloche/engine/place.py by scripts/blocking.py: edit that file instead.
"""This host as a place that makes sandboxes."""

from __future__ import annotations

from cloche import languages
from cloche.blocking.engine.sandbox import HostSandbox
from cloche.blocking.walls import registry
from cloche.errors import InvalidRun
from cloche.model.order import Order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.sandbox.backend import Session
    from cloche.blocking.sandbox.one_shot import Job
    from cloche.blocking.walls.wall import Wall
    from cloche.model.environments import Environment
    from cloche.model.result import Result
    from cloche.sandbox.requests import SandboxRequest

LIFETIME_GRACE_S = 5.0  # the wall ends a one-shot sandbox by itself this much later than the engine would


class HostPlace:
    """This host, with a wall that the caller gives or names."""

    takes_whole_jobs = False

    def __init__(self, isolation: str = "auto", wall: Wall | None = None) -> None:
        self._wall = wall or registry.wall(isolation)

    def sandbox(self, request: SandboxRequest, session: Session) -> HostSandbox:
        """Return a sandbox with sessions."""
        from cloche.blocking.engine.checkpoints import HostCheckpoints
        from cloche.blocking.engine.sessions import HostSessions

        for name, value in request.server_options.items():
            if value:
                raise InvalidRun(f"{name}= needs a server.", hint="Say where it is, with url= or CLOCHE_URL; no wall=.")
        environment = _environment(request.environment)
        order = Order(request.limits, request.mounts, None, request.lifetime)
        env = request.env if environment is None else {**environment.env, **request.env}
        box = HostSandbox(
            order, env, self._wall, request.network, request.packages, request.package_policy, environment
        )
        box.sessions = HostSessions(box, request.tools)
        box.checkpoints = HostCheckpoints(box, session, request.checkpoints, request.undo)
        return box

    def one_shot(self, job: Job) -> HostSandbox:
        """Return a sandbox for one program, chosen by the libraries that the program imports."""
        chosen = languages.find(job.program.language or "python")
        imports = chosen.imports(job.program.code or "")
        limits = job.limits
        lifetime = None if limits.timeout_s is None else limits.timeout_s + LIFETIME_GRACE_S
        if lifetime is not None and not chosen.warm:
            from cloche.engine.building import CHECK_S

            lifetime = None if limits.build_timeout_s is None else lifetime + limits.build_timeout_s + CHECK_S
        environment = _environment(job.environment)
        order = Order(limits, job.mounts, imports, lifetime)
        env = job.env if environment is None else {**environment.env, **job.env}
        return HostSandbox(order, env, self._wall, job.network, job.packages, job.package_policy, environment)

    def run(self, job: Job) -> Result:
        """Never called for this host: a sandbox here takes one round trip anyway."""
        raise NotImplementedError


def _environment(given: Environment | str | None) -> Environment | None:
    """The environment that a caller named, or that a server has found for its caller."""
    if not isinstance(given, str):
        return given
    from cloche.packages import of_this_host

    return of_this_host.find_environment(given)
