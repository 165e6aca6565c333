"""The verbs about packages: install, list, remove and search them; and the policy that a caller's packages obey."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cloche.engine.host_only import on_this_host
from cloche.errors import InvalidRun
from cloche.io.tasks import LARGE, in_own_thread, off_loop
from cloche.model.installs import FoundPackages, Install, InstalledPackage
from cloche.model.packages import Requirement
from cloche.packages import of_this_host
from cloche.policy.caller import Caller
from cloche.policy.packages import policy_for
from cloche.policy.refusals import TooMany
from cloche.sandbox.package_checks import checked_packages, ecosystem_of
from cloche.service.verbs import verb

if TYPE_CHECKING:
    from cloche.packages.policy import PackagePolicy
    from cloche.service.lifecycle import Lifecycle

_AT_ONCE = 8  # installs and searches of one key: each may wait for the index
_SOON_S = 2.0  # when to try again

Packages = Iterable[str] | Mapping[str, Iterable[str]]


def bound_on(caller: Caller) -> PackagePolicy | None:
    """The policy for the sandboxes and runs of a caller; None for the operator's own."""
    return policy_for(caller, of_this_host.policy()) if caller.policy.packages else None


async def check_packages(caller: Caller, packages: Sequence[Requirement]) -> None:
    """Refuse packages that the caller may not install, before anything is made for them."""
    if packages:
        await off_loop(LARGE, lambda: policy_for(caller, of_this_host.policy()).check_request(packages))


class Installs:
    """Installs and finds packages."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._busy: Counter[str] = Counter()  # installs and searches under way, by key

    @verb("read")
    async def policy(self, caller: Caller) -> PackagePolicy:
        """The policy in force for everything that this caller installs."""
        return await off_loop(LARGE, lambda: policy_for(caller, of_this_host.policy()))

    @verb("read")
    async def list(self, caller: Caller, sandbox: str) -> Sequence[InstalledPackage]:
        """The packages that programs in a sandbox can import."""
        live = await self._lifecycle.find(caller, sandbox)
        async with live.used(saves=False) as box:
            return await box.packages.list()

    @verb("run")
    async def install(self, caller: Caller, sandbox: str, packages: Packages, *, language: str = "python") -> Install:
        """Install packages in a living sandbox, as the policies of the sandbox and of the caller allow."""
        live = await self._lifecycle.find(caller, sandbox)
        wanted = checked_packages(packages, language)
        if not wanted:
            raise InvalidRun("No package is named.", hint='Write packages=["polars"].')
        await check_packages(caller, wanted)
        account = self._lifecycle.charges.account(caller)
        with _Turn(self._busy, caller.key_id):
            async with live.used():
                await live.begin_work(account)
                try:
                    done = await on_this_host(live.box).packages.install(wanted, callers=bound_on(caller))
                finally:
                    await live.settle(account)
                    live.end_work(account)
        installed = [f"{each.name} {each.version}" for each in done.packages]
        self._lifecycle.audit.note(caller, "packages.install", sandbox, {"packages": installed})
        live.happened("packages", {"installed": installed})
        return done

    @verb("run")
    async def uninstall(
        self, caller: Caller, sandbox: str, names: Sequence[str], *, language: str = "python"
    ) -> Sequence[str]:
        """Remove packages that were installed in a living sandbox; return those that were there."""
        live = await self._lifecycle.find(caller, sandbox)
        ecosystem = ecosystem_of(language)
        if not names:
            raise InvalidRun("No package is named.", hint="Name those that are to be removed.")
        async with live.used():
            removed = await on_this_host(live.box).packages.uninstall(names, ecosystem)
        self._lifecycle.audit.note(caller, "packages.uninstall", sandbox, {"packages": removed})
        live.happened("packages", {"removed": removed})
        return removed

    @verb("run")
    async def search(self, caller: Caller, text: str, *, language: str = "python") -> FoundPackages:
        """Look for packages by name and by words of their descriptions."""
        ecosystem = ecosystem_of(language)
        with _Turn(self._busy, caller.key_id):
            return await in_own_thread(lambda: of_this_host.search(text, ecosystem, bound_on(caller)))


class _Turn:
    """A place among the installs and searches of a key; raises TooMany when there is none."""

    def __init__(self, busy: Counter[str], key: str) -> None:
        self._busy, self._key = busy, key

    def __enter__(self) -> None:
        if self._busy[self._key] >= _AT_ONCE:
            raise TooMany(
                f"This key has {_AT_ONCE} installs or searches of packages under way.",
                "Wait until one of them is done.",
                limit="packages_at_once",
                retry_after=_SOON_S,
            )
        self._busy[self._key] += 1

    def __exit__(self, *_: object) -> None:
        self._busy[self._key] -= 1
        if not self._busy[self._key]:
            del self._busy[self._key]
