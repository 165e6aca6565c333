"""The broker: turns requirements into a layer, and does each piece of work once for all sandboxes of the host.

resolve → check the policy → download → unpack → keep as a layer.  Resolving, downloading and unpacking happen in
sandboxes of the broker's own; this process only checks what they have written.  Everything here is synchronous: the
engine calls it in a thread.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from time import time

from cloche.errors import InvalidRun, Refused
from cloche.model.packages import Lock, LockedPackage, Requirement
from cloche.model.plain import Plain
from cloche.packages import builds, node_lock, node_packages, npm_configuration, python_packages
from cloche.packages.catalogue import Catalogue
from cloche.packages.layers import Layer, LayerStore
from cloche.packages.policy import PackagePolicy
from cloche.packages.resolutions import Resolutions, lock_data, lock_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.model.manifests import Manifests

Report = Callable[[str], None]

_DAY_S = 86_400.0
_FRESH_S = 600.0  # how long a resolution counts where the newest release counts


class Provided(Plain):
    """The answer to a request for packages."""

    layer: Layer | None  # None: the environment has all of them already
    ecosystem: str
    packages: tuple[LockedPackage, ...]  # in the layer
    satisfied: tuple[tuple[str, str], ...]  # names and versions that were there already
    warnings: tuple[str, ...]


class _Turn:
    """A lock for a piece of work, and the number of threads that want it."""

    def __init__(self) -> None:
        self.lock, self.users = allocate_lock(), 0


class Broker:
    """Provides layers below one folder of the host."""

    def __init__(self, folder: str, environment: str) -> None:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.folder, self.environment = folder, environment
        self.layers = LayerStore(f"{folder}/store")
        self._resolutions = Resolutions(f"{folder}/resolutions")
        self.catalogue = Catalogue(f"{folder}/catalogue")
        self._turns: dict[str, _Turn] = {}  # by the work that they guard
        self._guard = allocate_lock()
        self.layers.sweep()

    def provide(
        self,
        requirements: Sequence[Requirement],
        policy: PackagePolicy,
        have: Mapping[str, str] | None = None,
        upgrade: bool = False,
        report: Report = lambda _: None,
    ) -> Provided:
        """Return a layer with these packages and all that they need; `have` are packages of the sandbox's own.

        All requirements are of one ecosystem.  With `upgrade`, the newest versions of these packages are taken, and
        not those that are there already.  `report` gets sentences about the progress.
        """
        if not requirements:
            raise InvalidRun("No package is named.", hint='Write packages=["polars"].')
        warnings = policy.check_request(requirements, self.catalogue)
        ecosystem = requirements[0].ecosystem
        if ecosystem != "python":
            return self._provide_node(requirements, policy, {} if upgrade else have or {}, upgrade, report, warnings)
        present = {**python_packages.present(self.environment), **(have or {})}
        named = {each.name for each in requirements} if upgrade else ()
        preferred = {name: version for name, version in present.items() if name not in named}
        lock = self._resolve(requirements, policy, preferred, report)
        missing = tuple(each for each in lock.packages if present.get(each.name) != each.version)
        satisfied = tuple((each.name, each.version) for each in lock.packages if each not in missing)
        if not missing:
            return Provided(None, ecosystem, (), satisfied, tuple(warnings))
        needed = Lock(ecosystem=ecosystem, packages=missing)
        # An index does not say which licence a Python package has; its files do.
        warnings += policy.replace(licences=()).check_lock(requirements, needed, time(), self.catalogue)
        layer = self.layer(needed, policy, report)
        if policy.licences:
            warnings += policy.check_lock(requirements, _with_licences(needed, layer), time(), self.catalogue)
        return Provided(layer, ecosystem, missing, satisfied, tuple(dict.fromkeys(warnings)))

    def provide_node_lock(
        self, entries: Sequence[object], policy: PackagePolicy, report: Report = lambda _: None
    ) -> Provided:
        """Return a layer with the Node packages of a project's own lock, which names versions, hashes and folders."""
        lock = node_lock.lock_of(entries, npm_configuration.find(), policy)
        if not lock.packages:
            return Provided(None, lock.ecosystem, (), (), ())
        # Whoever wrote the lock has chosen each version.
        requirements = tuple(
            Requirement(lock.ecosystem, each.name, f"{each.name}@{each.version}", True, (each.file.hash,))
            for each in lock.packages
        )
        warnings = policy.check_lock(requirements, lock, time(), self.catalogue)
        return Provided(self.layer(lock, policy, report), lock.ecosystem, lock.packages, (), tuple(warnings))

    def _provide_node(
        self,
        requirements: Sequence[Requirement],
        policy: PackagePolicy,
        have: Mapping[str, str],
        upgrade: bool,
        report: Report,
        warnings: list[str],
    ) -> Provided:
        """Leave out only whole requirements: Node finds the dependencies of a package in the layer of that package."""
        present = {**node_packages.present(self.environment), **have}
        there = [each for each in requirements if not upgrade and node_packages.satisfies(present.get(each.name), each)]
        satisfied = tuple((each.name, present[each.name]) for each in there)
        wanted = [each for each in requirements if each not in there]
        if not wanted:
            return Provided(None, requirements[0].ecosystem, (), satisfied, tuple(warnings))
        lock = self._resolve(wanted, policy, {}, report)
        warnings += policy.check_lock(wanted, lock, time(), self.catalogue)
        return Provided(
            self.layer(lock, policy, report), lock.ecosystem, lock.packages, satisfied, tuple(dict.fromkeys(warnings))
        )

    def dependencies(
        self, manifests: Manifests, policy: PackagePolicy, report: Report = lambda _: None
    ) -> builds.Prepared:
        """Return a layer with the dependencies of a project that Cargo, Go or Maven builds."""
        return builds.prepare(self, manifests, policy, report)

    def layer(self, lock: Lock, policy: PackagePolicy, report: Report) -> Layer:
        """Return the layer of a lock; it is made if it is not there."""
        found = self.layers.find(lock.digest)
        if found is not None:
            return found
        with self.one_at_a_time(f"layer-{lock.digest}"):
            found = self.layers.find(lock.digest)
            if found is None:
                source = _source(lock.ecosystem)
                with self.layers.begin() as staging:
                    details = source.build(lock, policy, f"{self.folder}/downloads", staging.folder, report)
                    details["lock"] = lock_data(lock)
                    found = self.layers.keep(staging, lock.digest, lock.ecosystem, details)
        return found

    def provide_locked(self, lock: Lock, policy: PackagePolicy, report: Report = lambda _: None) -> Provided:
        """Return a layer with exactly the packages of a lock that was kept."""
        wanted = [_pinned(each) for each in lock.packages]
        warnings = policy.check_request(wanted) + policy.check_lock(wanted, lock, time(), self.catalogue)
        return Provided(self.layer(lock, policy, report), lock.ecosystem, lock.packages, (), tuple(warnings))

    def allowed_layer(self, name: str, policy: PackagePolicy) -> Layer | None:
        """Return a layer that a workspace names, if it is there and has only packages that the policy allows."""
        try:
            layer = self.layers.find(name)
            if layer is None or "lock" not in layer.details:
                return None  # files of somebody's environment, for example
            lock = lock_of(layer.details["lock"])
            policy.check_lock([_pinned(each) for each in lock.packages], lock, time(), self.catalogue)
        except (ValueError, Refused):
            return None
        return layer

    def present(self) -> dict[str, dict[str, str]]:
        """The packages of the environment with their versions, by language."""
        return {
            "python": python_packages.present(self.environment),
            "javascript": node_packages.present(self.environment),
        }

    def _resolve(
        self, requirements: Sequence[Requirement], policy: PackagePolicy, present: Mapping[str, str], report: Report
    ) -> Lock:
        ecosystem = requirements[0].ecosystem
        index = python_packages if ecosystem == "python" else node_packages
        key = _key(ecosystem, *(each.text for each in requirements), repr(policy), repr(sorted(present.items())))
        lasts_s = _DAY_S if policy.min_age_days else _FRESH_S
        known = self._resolutions.find(key, lasts_s)
        if known is not None:
            return known
        with self.one_at_a_time(f"resolve-{key}"):
            known = self._resolutions.find(key, lasts_s)
            if known is None:
                report("Resolving packages")
                known = index.resolve(requirements, policy, present)
                self._resolutions.keep(key, known)
        return known

    @contextmanager
    def one_at_a_time(self, work: str) -> Iterator[None]:
        """Let one thread of one process of this host do a piece of work; the others then find its outcome."""
        with self._guard:
            turn = self._turns.setdefault(work, _Turn())
            turn.users += 1
        try:
            with turn.lock, self._file_lock(work):
                yield
        finally:
            with self._guard:
                turn.users -= 1
                if not turn.users:
                    del self._turns[work]

    @contextmanager
    def _file_lock(self, work: str) -> Iterator[None]:
        import fcntl

        os.makedirs(f"{self.folder}/locks", mode=0o700, exist_ok=True)
        # The file stays: another process may have opened it, and would hold a lock that nobody else sees.
        file = os.open(f"{self.folder}/locks/{work[:200]}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)


def _source(ecosystem: str) -> Any:
    """The module that knows the packages of an ecosystem."""
    if ecosystem in builds.ECOSYSTEMS:
        return builds.source_of(ecosystem)
    return python_packages if ecosystem == "python" else node_packages


def _with_licences(lock: Lock, layer: Layer) -> Lock:
    known = {each["name"]: str(each.get("licence") or "") for each in layer.details["packages"]}
    return lock.replace(packages=tuple(each.replace(licence=known.get(each.name, "")) for each in lock.packages))


def _pinned(package: LockedPackage) -> Requirement:
    joined = "==" if package.ecosystem == "python" else "@"
    text = f"{package.name}{joined}{package.version}"
    return Requirement(package.ecosystem, package.name, text, True, (package.file.hash,))


def _key(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()
