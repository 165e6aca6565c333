"""Environments on this host: built once in a sandbox, kept as layers and an archive of files, and found by name.

The builder carries out the steps in a sandbox like any other and then has the sandbox pack its files into an archive.
The archive is only ever unpacked inside sandboxes.

An environment is one JSON file, which names its layers.  The file takes the place of an earlier one in one step, so a
build that fails or is killed leaves the earlier environment.  Layers are pinned while a file names them.
"""

from __future__ import annotations

import json
import logging
import os
from hashlib import sha256
from time import time

from cloche.errors import Gone, InvalidRun, Refused
from cloche.model.environments import Environment, EnvironmentMount, EnvironmentSpec, check_spec, checked_name
from cloche.model.installs import InstalledPackage
from cloche.packages.bill_of_materials import locks as kept_locks
from cloche.packages.environment_build import Build
from cloche.packages.resolutions import lock_of
from cloche.packages.trees import size_text
from cloche.wire.layers import SLOTS, slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from cloche.model.network import Network
    from cloche.packages.broker import Broker
    from cloche.packages.layers import Layer
    from cloche.packages.policy import PackagePolicy

log = logging.getLogger("cloche.packages")

MOST = 50  # environments of one owner
MOST_BYTES = 5 * 10**9  # of one owner; a layer counts for each environment that has it
_ARCHIVE = "files.tar"
_MAX_FILES = 1 << 30
# Begins the names of layers with files.  They are longer than those of packages, and nothing can make them again.
_FILES = "f11e5"
_PIN = "environment-"
_CHANGE = "environments"  # the lock that every change of an environment takes
_DRAFT = ".part"

Found = list[Environment]  # within the class, `list` is a method
Folders = list[str]


class Environments:
    """The environments of one owner; an empty owner is the host itself, whose environments everybody may use."""

    def __init__(self, broker: Broker, owner: str = "") -> None:
        self._broker = broker
        self._root = f"{broker.folder}/environments"
        self._folder = f"{self._root}/{sha256(owner.encode()).hexdigest()[:24] if owner else 'host'}"
        self._shared = Environments(broker) if owner else None

    def find(self, name: str) -> Environment:
        """Return an environment by its name, an own one before one of the host."""
        name = checked_name(name)
        found = self._read(name)
        if found is None and self._shared is not None:
            found = self._shared._read(name)
        if found is None:
            there = ", ".join(each.name for each in self.list()[:10])
            raise Gone(
                f"There is no environment {name}.",
                hint=f"There are: {there}." if there else "Make one with `cloche env create`.",
            )
        return found

    def list(self) -> Found:
        """Return all environments that this owner can use, by name."""
        own = {each.name: each for each in self._own()}
        shared = {} if self._shared is None else {each.name: each for each in self._shared._own()}
        return [each for _, each in sorted({**shared, **own}.items())]

    def remove(self, name: str) -> None:
        """Forget an environment; sandboxes that were started from it go on."""
        name = checked_name(name)
        with self._broker.one_at_a_time(_CHANGE):
            try:
                os.unlink(self._path(name))
            except FileNotFoundError:
                raise Gone(
                    f"There is no environment {name} of yours.", hint="`cloche env list` shows what there is."
                ) from None
            self._sweep()

    def copy(self, name: str, other: str) -> Environment:
        """Give an environment another name as well; both share its files."""
        found, other = self.find(name), checked_name(other)
        copy = found.replace(name=other, created=time(), shared=self._shared is None)
        with self._broker.one_at_a_time(_CHANGE):
            self._check_room(other)
            self._record(copy)
        return copy

    def mount(self, environment: Environment, policy: PackagePolicy) -> tuple[EnvironmentMount, tuple[int, ...]]:
        """Return what a wall needs, and descriptors that keep the layers while they are open.

        All layers are compared with their manifests.  Packages that are lost or changed are installed again from the
        lock.
        """
        layers: list[Layer] = []
        uses: list[int] = []
        try:
            for name in environment.layers:
                layer = self._broker.layers.find(name) or self._again(environment, name, policy)
                uses.append(layer.use())
                layers.append(layer)
            mounts = []
            for layer in layers:
                found = os.stat(layer.folder)
                mounts.append((layer.folder, (found.st_dev, found.st_ino)))
        except BaseException:
            for each in uses:
                os.close(each)
            raise
        archive = f"{slot(len(layers) - 1)}/{_ARCHIVE}"
        return EnvironmentMount(environment.digest, tuple(mounts), archive, environment.imports), tuple(uses)

    def build(
        self,
        name: str,
        spec: EnvironmentSpec,
        policy: PackagePolicy,
        network: Network | None = None,
        report: Callable[[str], None] = lambda _: None,
        resources: Mapping[str, Any] | None = None,
        started: Callable[[Any], None] = lambda _: None,
    ) -> Environment:
        """Build an environment, in place of an earlier one of that name.

        `report` gets the lines of the build's log, `started` the backend of its sandbox.  `resources` are limits of
        the sandbox, by name.
        """
        name = checked_name(name)
        check_spec(spec)
        if spec.from_lock and spec.packages:
            raise InvalidRun(
                "The packages of a build are listed, or come from the earlier environment's lock, and not both.",
                hint="Leave out --from-lock, or the packages.",
            )
        locks = kept_locks(self.find(name)) if spec.from_lock else []
        base = self.find(spec.base) if spec.base else None
        self._check_room(name)
        with Build(self._broker, spec, policy, network, base, report, resources or {}, started) as build:
            build.install(locks)
            build.carry_out()
            environment = self._keep(name, spec, build, base)
        report(f"Environment {name} is ready")
        return environment

    # --- steps

    def _keep(self, name: str, spec: EnvironmentSpec, build: Build, base: Environment | None) -> Environment:
        names, details = build.layers()
        if len(names) >= SLOTS:
            raise InvalidRun(f"An environment can have at most {SLOTS - 1} installs.", hint="Install more at once.")
        packages = build.packages()
        digest = sha256()
        with self._broker.layers.begin() as staging:
            os.mkdir(f"{staging.folder}/tree")
            with open(f"{staging.folder}/tree/{_ARCHIVE}", "wb") as target:
                for piece in build.packed():
                    if target.tell() + len(piece) > _MAX_FILES:
                        raise InvalidRun(
                            f"The files of an environment take at most {size_text(_MAX_FILES)}.",
                            hint="Remove caches at the end of the setup, and mount large data in each sandbox instead.",
                        )
                    digest.update(piece)
                    target.write(piece)
            with self._broker.one_at_a_time(_CHANGE):
                files = self._broker.layers.keep(staging, f"{_FILES}{digest.hexdigest()}", "files", {"packages": []})
                layers = (*names, files.name)
                imports = tuple(dict.fromkeys((*(base.imports if base is not None else ()), *spec.imports)))
                whole = sha256(json.dumps([layers, imports, build.env, build.folder]).encode()).hexdigest()
                environment = Environment(
                    name=name,
                    created=time(),
                    digest=whole,
                    packages=packages,
                    layers=layers,
                    size=files.size + sum(self._size(each) for each in names),
                    imports=imports,
                    env=build.env,
                    folder=build.folder,
                    start=spec.start or (base.start if base is not None else ""),
                    ready=spec.ready or (base.ready if base is not None else ""),
                    lock=details,
                    shared=self._shared is None,
                    labels={**(base.labels if base is not None else {}), **spec.labels},
                )
                self._check_room(name, environment.size)
                self._record(environment)
        return environment

    def _record(self, environment: Environment) -> None:
        # Pins come before the file that names the layers, so that no layer of it is ever removed.
        for layer in environment.layers:
            self._broker.layers.pin(layer, _pin(self._folder, environment))
        self._write(environment)
        self._sweep()

    def _check_room(self, name: str, size: int = 0) -> None:
        others = [each for each in self._own() if each.name != name]
        if len(others) >= MOST:
            raise Refused(f"There are {MOST} environments already.", hint="Remove some: `cloche env remove NAME`.")
        taken = sum(each.size for each in others)
        if taken + size > MOST_BYTES:
            raise Refused(
                f"Your environments would take {size_text(taken + size)}, and at most {size_text(MOST_BYTES)} are "
                "allowed.",
                hint="Remove some: `cloche env remove NAME`.",
            )

    def _again(self, environment: Environment, name: str, policy: PackagePolicy) -> Layer:
        """Make a layer again from its lock."""
        lock = environment.lock.get(name, {}).get("lock")
        if lock is None:
            raise Gone(
                f"The files of the environment {environment.name} were changed or are lost.",
                hint=f"Build it again: `cloche env create {environment.name}`.",
            )
        log.warning("A layer of the environment %s is lost and is made again.", environment.name)
        layer = self._broker.layer(lock_of(lock), policy, lambda _: None)
        self._broker.layers.pin(layer.name, _pin(self._folder_of(environment), environment))
        return layer

    def _size(self, layer: str) -> int:
        found = self._broker.layers.find(layer)
        return 0 if found is None else found.size

    def _folder_of(self, environment: Environment) -> str:
        return f"{self._root}/host" if environment.shared else self._folder

    def _sweep(self) -> None:
        """Remove drafts and pins that killed builds have left, and files that no environment has.

        The caller has the lock, so no build is between its pins and its file.
        """
        layers = self._broker.layers
        needed = {_pin(folder, each) for folder in self._folders() for each in _environments(folder)}
        for name in layers.names():
            for by in layers.pins(name):
                if by.startswith(_PIN) and by not in needed:
                    layers.unpin(name, by)
            if name.startswith(_FILES) and not layers.is_pinned(name):
                layers.remove(name)
        for folder in self._folders():
            for entry in os.listdir(folder):
                if entry.endswith(_DRAFT):
                    os.unlink(f"{folder}/{entry}")

    def _folders(self) -> Folders:
        return [entry.path for entry in os.scandir(self._root)] if os.path.isdir(self._root) else []

    # --- files

    def _own(self) -> Found:
        return _environments(self._folder)

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}.json"

    def _read(self, name: str) -> Environment | None:
        return _read(self._path(name))

    def _write(self, environment: Environment) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        draft = f"{self._folder}/{environment.name}.{os.getpid()}{_DRAFT}"
        with open(draft, "w", encoding="utf-8") as file:
            json.dump({**environment.as_dict(), "env": dict(environment.env)}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self._path(environment.name))


def _pin(folder: str, environment: Environment) -> str:
    name = f"{os.path.basename(folder)}\0{environment.name}\0{environment.digest}"
    return f"{_PIN}{sha256(name.encode()).hexdigest()[:24]}"


def _environments(folder: str) -> Found:
    try:
        entries = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    found = (_read(f"{folder}/{entry}") for entry in entries if entry.endswith(".json"))
    return [each for each in found if each is not None]


def _read(path: str) -> Environment | None:
    try:
        with open(path, encoding="utf-8") as file:
            data: dict[str, Any] = json.load(file)
        data["packages"] = tuple(InstalledPackage(**each) for each in data["packages"])
        data["layers"], data["imports"] = tuple(data["layers"]), tuple(data["imports"])
        return Environment(**data)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        log.error("The environment in %s cannot be read: %s", path, type(problem).__name__)
        return None
