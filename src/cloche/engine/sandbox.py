"""A sandbox of this host: its lifetime, and the connection to its agent."""

from __future__ import annotations

from _weakref import ref
from time import monotonic

from cloche.engine.link import AsyncLink, Lost
from cloche.errors import Gone, InvalidRun, SandboxFailed
from cloche.io.tasks import AsyncJob, AsyncLock, off_loop
from cloche.model.limits import Limits
from cloche.model.order import FirstCommand, Order, Spent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _collections_abc import Mapping, Sequence

    from cloche.engine.checkpoints import AsyncHostCheckpoints
    from cloche.engine.files import AsyncHostFiles
    from cloche.engine.network import AsyncHostNetwork
    from cloche.engine.packages import AsyncHostPackages
    from cloche.engine.ports import AsyncHostPorts
    from cloche.engine.programs import AsyncHostPrograms
    from cloche.engine.sessions import AsyncHostSessions
    from cloche.model.environments import Environment
    from cloche.model.network import Network
    from cloche.model.network_attempt import NetworkAttempt
    from cloche.model.packages import Requirement
    from cloche.model.result import Usage
    from cloche.packages.broker import Provided
    from cloche.packages.policy import PackagePolicy
    from cloche.walls.wall import AsyncHold, AsyncWall

_LONG = 1 << 20  # work that always goes to a thread
MAX_FIRST = 64 << 10  # bytes that can be sent to an agent before it reads
_REASONS = {"memory": "it needed too much memory", "timeout": "its time was up", "closed": "it was closed"}


class AsyncHostSandbox:
    """A sandbox of this host.

    Its parts are made when they are first used: a one-shot run needs programs only, and should start fast.
    """

    id: str | None = None  # only sandboxes on a server have these three
    workspace: str | None = None
    metadata: Mapping[str, str] = {}  # noqa: RUF012  (never changed)

    sessions: AsyncHostSessions  # only set for sandboxes with sessions: engine/place.py
    checkpoints: AsyncHostCheckpoints

    def __init__(
        self,
        order: Order,
        env: dict[str, str],
        wall: AsyncWall,
        network: Network | None = None,
        packages: Sequence[Requirement] = (),
        package_policy: PackagePolicy | None = None,
        environment: Environment | None = None,
    ) -> None:
        self.limits = order.limits
        self._order, self.env, self._wall = order, env, wall
        self.wall = wall.name
        self.began = monotonic()
        self._opening = AsyncLock()
        self._hold: AsyncHold | None = None
        self.link = AsyncLink()  # connected once the sandbox is created
        self._ended = False
        self.closed = False  # closed by its owner
        self._failure: SandboxFailed | None = None  # found by a task that only measures, for the one that wants to know
        self.paused = False
        self._pausing = AsyncLock()
        self.oom_kills_seen = self.refusals_seen = 0  # counts that no later program is to blame for
        self._is_seen = True  # whether nothing can have happened since the counts were read
        self.is_watched = True  # whether the wall counts them at all, known after the first request
        self._files: AsyncHostFiles | None = None
        self._programs: AsyncHostPrograms | None = None
        self._network: AsyncHostNetwork | None = None  # while nothing has asked for one
        self._packages: AsyncHostPackages | None = None
        self.begin_with(packages, package_policy)
        self._has_packages = True  # false while they are being installed, and nothing may run yet
        self.environment = environment  # that the sandbox was started from
        if network is not None and not network.is_none:
            self._network = self._make_network(network)

    def begin_with(self, packages: Sequence[Requirement], policy: PackagePolicy | None) -> None:
        """Have these packages installed before anything runs; the policy is for later installs, too."""
        self._wanted, self._package_policy = packages, policy

    # --- parts

    @property
    def files(self) -> AsyncHostFiles:
        """The sandbox's files."""
        if self._files is None:
            from cloche.engine.files import AsyncHostFiles

            self._files = AsyncHostFiles(self)
        return self._files

    @property
    def programs(self) -> AsyncHostPrograms:
        """The sandbox's programs and commands."""
        if self._programs is None:
            from cloche.engine.programs import AsyncHostPrograms

            self._programs = AsyncHostPrograms(self)
        return self._programs

    @property
    def ports(self) -> AsyncHostPorts:
        """The servers inside the sandbox."""
        from cloche.engine.ports import AsyncHostPorts

        return AsyncHostPorts(self)

    @property
    def network(self) -> AsyncHostNetwork:
        """The sandbox's access to the network."""
        if self._network is None:
            from cloche.model.network import Network

            self._network = self._make_network(Network())
        return self._network

    @property
    def packages(self) -> AsyncHostPackages:
        """The sandbox's packages."""
        if self._packages is None:
            from cloche.engine.packages import AsyncHostPackages

            self._packages = AsyncHostPackages(self, self._package_policy)
        return self._packages

    def _make_network(self, network: Network) -> AsyncHostNetwork:
        from cloche.engine.network import AsyncHostNetwork

        return AsyncHostNetwork(self, network)

    @property
    def whole_env(self) -> dict[str, str]:
        """The owner's environment variables, and those that the network policy adds."""
        return self.env if self._network is None else {**self._network.variables, **self.env}

    async def attempts_since(self, began: float) -> tuple[NetworkAttempt, ...]:
        """Return the attempts to use the network since a run began, by the monotonic clock."""
        return () if self._network is None else await self._network.attempts_of_run(began)

    @property
    def has_network(self) -> bool:
        """Whether the policy allows anything."""
        return self._network is not None and not self._network.network.is_none

    def has_own_port(self, port: int) -> bool:
        """Return whether Cloche's own sockets listen on a port of the sandbox, and no program can."""
        return self._network is not None and self._network.is_ours(port)

    # --- lifetime

    async def open(self) -> None:
        """Create the sandbox, unless it exists already."""
        await self.create(b"")

    async def create(self, first: bytes) -> bool:
        """Create the sandbox, unless it exists already; return whether this call created it and sent `first`.

        Those bytes travel with the claim, and the agent reads them first, so the first request takes no round trip of
        its own.  With a network policy they have to be sent afterwards.
        """
        if self._ended:
            raise Gone("This sandbox has ended.", hint="Make a new one.")
        if self._hold is None or not self._has_packages:
            async with self._opening:
                if self._hold is None:
                    if self.environment is not None:
                        await self._begin_environment(self.environment)
                    provided = await self.packages.provide(self._wanted) if self._wanted else ()
                    sends_first = self._network is None and not provided
                    hold = await self._wall.hold(self._order, first if sends_first else b"")
                    if self._network is not None:
                        await self._begin_network(self._network, hold)
                    self.link.connect(hold.stream)
                    self.link.on_request = self._requested
                    self._has_packages = not provided
                    self._hold = hold
                    _holds[ref(self, _forgotten)] = hold
                    if provided:
                        await self._attach(provided, hold)
                    if self._network is not None:
                        await self._network.furnish()
                    return sends_first
        elif self._network is not None:
            await self._network.ensure()
        return False

    async def _attach(self, provided: Sequence[Provided], hold: AsyncHold) -> None:
        """Show the packages in the sandbox before any program can run; without them, the sandbox ends."""
        try:
            for each in provided:
                await self.packages.attach(each)
        except BaseException:
            self._ended = True
            hold.abandon()
            raise
        self._has_packages = True

    async def _begin_environment(self, environment: Environment) -> None:
        """Check the layers of the sandbox's environment, and keep them for as long as it lives."""
        from cloche.packages import of_this_host

        if self._wall.name != "jail":
            raise InvalidRun(
                f"Environments are for sandboxes of this host, and not of {self._wall.name}.",
                hint="Leave out the environment, or use isolation='jail'.",
            )
        # In a thread: layers that are lost are made again, which can take minutes.
        mount, uses = await off_loop(_LONG, lambda: of_this_host.mount(environment))
        self.packages.keep(uses)
        self._order = self._order.replace(environment=mount)

    async def _begin_network(self, network: AsyncHostNetwork, hold: AsyncHold) -> None:
        """Put the network policy in force before any program can run."""
        try:
            await network.begin(hold)
        except BaseException:
            hold.abandon()
            raise

    def _requested(self, payload: bytes) -> None:
        """A program inside wants packages."""
        self.packages.serve(payload)

    def held(self) -> AsyncHold:
        """Return the wall's hold on the sandbox, once it is created."""
        assert self._hold is not None
        return self._hold

    def expect(self, command: FirstCommand) -> None:
        """Request a sandbox in which this command waits already.  Has no effect once the sandbox is created."""
        if self._hold is None:
            self._order = self._order.replace(first_command=command)

    async def close(self) -> None:
        """End the sandbox with everything in it, and wait until it is removed."""
        self._ended = self.closed = True
        if self._network is not None:
            self._network.close()
        if self._packages is not None:
            self._packages.close()
        if self._hold is not None:
            try:
                await self._hold.end()
                await self._hold.gone()
            except SandboxFailed:
                pass  # the sandbox was never made
            self._hold.abandon()

    async def kill(self) -> None:
        """Do the same as `close`."""
        await self.close()

    async def let_go(self) -> None:
        """End the sandbox without waiting until it is removed."""
        self._ended = True
        if self._network is not None:
            self._network.close()
        if self._packages is not None:
            self._packages.close()
        if self._hold is not None:
            self._hold.abandon()

    async def pause(self) -> None:
        """Stop everything inside until `resume`."""
        await self.open()
        await AsyncJob(self._pause).wait()  # it stops all the same when the caller is cancelled

    async def _pause(self) -> None:
        assert self._hold is not None
        async with self._pausing:
            await self._hold.pause()
            self.paused = True

    async def resume(self) -> None:
        """Continue a paused sandbox."""
        await AsyncJob(self._resume).wait()

    async def _resume(self) -> None:
        async with self._pausing:  # after a pause under way, whose caller may have been cancelled
            if self._hold is not None and self.paused:
                await self._hold.resume()
                self.paused = False

    async def set_lifetime(self, seconds: float | None) -> None:
        """End the sandbox this many seconds from now; None: when it is closed."""
        await self.open()
        assert self._hold is not None
        await self._hold.set_lifetime(seconds)

    async def usage(self) -> Usage:
        """Measure the resources that the sandbox uses now."""
        from cloche.model.result import Usage

        disk = await self.files.disk()
        spent = await self.spent(final=False)
        if spent.reason:
            await self.explain_loss(Lost("nothing counts its resources any more"))
        return Usage(
            memory=spent.memory or 0,
            memory_peak=spent.memory_peak or 0,
            cpu_time=_cpu_time(spent) or 0.0,
            disk=disk["total"] - disk["free"],
            processes=max((spent.processes or 1) - 1, 0),
        )

    async def ended(self) -> str:
        """Wait until the sandbox has ended; return the reason, as one word."""
        if self._hold is None:
            if self.closed:
                return "closed"
            await self.open()
        assert self._hold is not None
        reason = await self._hold.ended()
        return "closed" if self.closed and reason in ("lost", "failed") else reason

    # --- frames to the agent

    async def begin(self, frame: bytes) -> None:
        """Send the first frame of an operation; this creates the sandbox if it does not exist yet."""
        first = frame if len(frame) <= MAX_FIRST else b""
        if await self.create(first) and first:
            return
        await self.send(frame)

    async def send(self, frame: bytes) -> None:
        """Send frames to the agent; raise the reason if the sandbox is gone."""
        if self._ended:
            raise Gone("This sandbox has ended.", hint="Make a new one.")
        try:
            await self.link.send(frame)
        except Lost as problem:
            await self.explain_loss(problem)

    async def explain_loss(self, problem: Exception) -> None:
        """Raise the reason why the agent does not answer."""
        spent = await self.spent(final=True)
        reason = _REASONS.get(spent.reason, str(problem))
        raise Gone(f"The sandbox has ended: {reason}.", hint="Make a new one.") from problem

    # --- measurements of the wall

    async def spent(self, final: bool) -> Spent:
        """Return the resources that the sandbox has used; `final` ends the sandbox."""
        assert self._hold is not None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if final:
            self._ended = True
            return await self._hold.end()
        return await self._hold.usage()

    async def cpu_time(self) -> float | None:
        """Return the CPU seconds that everything in the sandbox has used, as its wall counts them, also after its end.

        The agent is not asked.  None where the wall does not count them, or was lost.
        """
        if self._hold is None:
            return 0.0
        try:
            return _cpu_time(await self._hold.usage())
        except SandboxFailed as problem:
            self._failure = problem
            return None

    async def end(self) -> None:
        """Let the wall kill the sandbox; its usage can still be read."""
        await self.spent(final=True)

    def see(self, spent: Spent) -> None:
        """Note the wall's counts, so that no later program is blamed for them."""
        self.oom_kills_seen, self.refusals_seen = spent.oom_kills, spent.processes_refused
        self._is_seen, self.is_watched = True, spent.processes is not None

    def see_later(self) -> None:
        """Note that code has run since the wall's counts were last read."""
        self._is_seen = False

    async def catch_up(self) -> None:
        """Read the wall's counts before a program begins, unless they are current."""
        if not self._is_seen and self.is_watched and not self._ended:
            self.see(await self.spent(final=False))

    def limits_with(self, timeout: float | None, build_timeout: float | None = None) -> Limits:
        """Return the sandbox's limits, with other time limits where they are given."""
        limits = self.limits if timeout is None else self.limits.replace(timeout_s=timeout)
        return limits if build_timeout is None else limits.replace(build_timeout_s=build_timeout)


def _cpu_time(spent: Spent) -> float | None:
    return spent.cpu_estimate if spent.cpu_time is None else spent.cpu_time


# An owner that drops a sandbox closes its leash, and that ends the sandbox.  A `__del__` cannot do this: a sandbox is
# part of a cycle, and the collector may close its sockets before it reaches the sandbox.
_holds: dict[ref[AsyncHostSandbox], AsyncHold] = {}


def _forgotten(box: ref[AsyncHostSandbox]) -> None:
    _holds.pop(box).abandon()
