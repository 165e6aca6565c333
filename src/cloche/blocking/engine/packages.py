# Generated from src/cloche/engine/packages.py by scripts/blocking.py: edit that file instead.
"""The packages of a sandbox: installed as layers, listed as the sandbox itself has them, and removed."""

from __future__ import annotations

import os
from json import dumps, loads

from cloche.blocking.engine.agent_requests import call
from cloche.blocking.engine.link import NONSENSE
from cloche.blocking.io.tasks import Lock, in_own_thread, off_loop, start_aside
from cloche.errors import ClocheError, InvalidRun, Refused
from cloche.model.installs import FoundPackages, Install, InstalledPackage
from cloche.wire import frames
from cloche.wire.layers import SLOTS, slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from cloche.blocking.engine.sandbox import HostSandbox
    from cloche.model.packages import LockedPackage, Requirement
    from cloche.packages.broker import Broker, Provided
    from cloche.packages.layers import Layer
    from cloche.packages.policy import PackagePolicy

_LONG = 1 << 20  # work that always goes to a thread
_AT_ONCE = 4  # requests from inside that are carried out at a time; others wait for their turn
_MAX_PENDING = 32
_MAX_LISTED = 5000
_NODE_FOLDER = "/sandbox/node_modules"
_GLOBAL = "/lib/node_modules"  # where `npm install --global` puts the packages that are named, and no others
_FOR_AGENT = ("name", "top", "scripts", "places", "bins")


class HostPackages:
    """The packages of one sandbox."""

    def __init__(self, box: HostSandbox, policy: PackagePolicy | None = None) -> None:
        self._box, self._policy = box, policy
        self._slots: dict[str, int] = {}  # of mounted layers, by name
        self._details: dict[str, dict[str, Any]] = {}  # of layers, by name
        self._uses: list[int] = []  # descriptors that keep the mounted layers from being removed
        if box.environment is not None:
            self._slots = {name: number for number, name in enumerate(box.environment.layers)}
            self._details = {name: dict(box.environment.lock.get(name, {})) for name in self._slots}
        self._changing = Lock()
        self._requests = 0  # from inside, that are not answered yet

    def install(
        self,
        requirements: Sequence[Requirement],
        folder: str = _NODE_FOLDER,
        upgrade: bool = False,
        callers: PackagePolicy | None = None,
    ) -> Install:
        """Install packages, so that programs and sessions can import them at once.

        `upgrade` takes the newest versions.  `callers` is the policy of somebody who did not make the sandbox.
        """
        done, _ = self._install(requirements, folder, upgrade, callers)
        return done

    def _install(
        self,
        requirements: Sequence[Requirement],
        folder: str,
        upgrade: bool,
        callers: PackagePolicy | None = None,
    ) -> tuple[Install, Sequence[LockedPackage]]:
        """Install packages; return the locked packages as well."""
        broker, policy = off_loop(_LONG, self._means)
        if callers is not None and callers != policy:
            policy = policy.narrowed(callers)
        self._box.open()
        with self._changing:
            done: Install | None = None
            locked: Sequence[LockedPackage] = ()
            for wanted in _by_ecosystem(requirements):
                language = wanted[0].ecosystem
                have = {each.name: each.version for each in self._own() if each.language == language}
                provided = in_own_thread(lambda: broker.provide(wanted, policy, have, upgrade))  # noqa: B023
                named = [each.name for each in wanted] if folder.endswith(_GLOBAL) else None
                step = self.attach(provided, folder, named)
                done = step if done is None else _joined(done, step)
                locked = [*locked, *provided.packages]
            if done is None:
                raise InvalidRun("No package is named.", hint='Write packages=["polars"].')
            return done, locked

    def _install_locked(self, entries: Sequence[Any], folder: str) -> Install:
        """Install what a project's package-lock.json names."""
        broker, policy = off_loop(_LONG, self._means)
        with self._changing:
            provided = in_own_thread(lambda: broker.provide_node_lock(entries, policy))
            return self.attach(provided, folder)

    def provide(self, requirements: Sequence[Requirement]) -> list[Provided]:
        """Prepare the layers for a sandbox that does not exist yet."""
        broker, policy = off_loop(_LONG, self._means)
        return [
            in_own_thread(lambda: broker.provide(wanted, policy))  # noqa: B023
            for wanted in _by_ecosystem(requirements)
        ]

    def attach(self, provided: Provided, folder: str = _NODE_FOLDER, only: Sequence[str] | None = None) -> Install:
        """Show a layer in the sandbox, and link its packages; of Node packages, `only` these."""
        layer, loaded = provided.layer, []
        if layer is not None:
            number = self._mounted(layer)
            request = {
                "method": "link_packages",
                "ecosystem": layer.ecosystem,
                "layer": slot(number),
                "folder": folder,
                "only": only,
                "packages": _for_agent(layer),
            }
            reply = call(self._box, request, "The packages cannot be linked", begun=True)
            loaded = [name for name in reply.get("loaded", ()) if isinstance(name, str)]
        return Install(
            packages=tuple(InstalledPackage(e.name, e.version, e.ecosystem, "sandbox") for e in provided.packages),
            satisfied=tuple(
                InstalledPackage(name, version, provided.ecosystem) for name, version in provided.satisfied
            ),
            warnings=provided.warnings,
            restart=tuple(loaded[:100]),
        )

    def list(self) -> list[InstalledPackage]:
        """The packages that programs in the sandbox find; those of its own go before the environment's."""
        own = self._own()
        broker, _ = off_loop(_LONG, self._means)
        found = {(each.language, each.name): each for each in own}
        for language, packages in broker.present().items():
            for name, version in packages.items():
                found.setdefault((language, name), InstalledPackage(name, version, language))
        return sorted(found.values(), key=lambda each: (each.language, each.name))

    def uninstall(self, names: Sequence[str], language: str = "python", folder: str = _NODE_FOLDER) -> Sequence[str]:
        """Remove packages that were installed in the sandbox; return those that were there."""
        request = {"method": "unlink_packages", "ecosystem": language, "names": list(names), "folder": folder}
        with self._changing:
            reply = call(self._box, request, "The packages cannot be removed")
        return [name for name in reply.get("removed", ()) if isinstance(name, str)]

    def layers(self) -> tuple[Sequence[str], dict[str, Any]]:
        """The layers that the sandbox has, by slot, and their details by name."""
        return list(self._slots), {name: dict(self._details.get(name, {})) for name in self._slots}

    def keep(self, uses: Sequence[int]) -> None:
        """Keep these descriptors open while the sandbox lives: those of its environment's layers."""
        self._uses += uses

    def search(self, text: str, language: str = "python") -> FoundPackages:
        """Look for packages by name and by words of their descriptions; the sandbox itself is not needed."""
        from cloche.packages import of_this_host

        return in_own_thread(lambda: of_this_host.search(text, language))

    def serve(self, payload: bytes) -> None:
        """Answer a request from inside, meanwhile."""
        if self._requests >= _MAX_PENDING:
            return  # no agent of ours sends so many
        self._requests += 1
        start_aside(lambda: self._serve(payload))

    def close(self) -> None:
        """Let go of the layers; the sandbox has ended."""
        for use in self._uses:
            os.close(use)
        self._uses.clear()

    # --- steps

    def _means(self) -> tuple[Broker, PackagePolicy]:
        from cloche.packages import of_this_host

        return of_this_host.shared(), self._policy or of_this_host.policy()

    def attach_again(self) -> Sequence[str]:
        """Mount the layers that a workspace had when it was saved; return the names of those that cannot be had."""
        reply = call(self._box, {"method": "list_layers"}, "The layers cannot be listed")
        listed = reply.get("layers")
        wanted = list(listed.items())[:SLOTS] if isinstance(listed, dict) else []
        if not wanted:
            return []
        broker, policy = off_loop(_LONG, self._means)
        lost = []
        with self._changing:
            for name, number in wanted:
                if name in self._slots:
                    continue
                layer = in_own_thread(lambda: broker.allowed_layer(str(name), policy))  # noqa: B023
                if layer is None or type(number) is not int or number in self._slots.values():
                    lost.append(str(name)[:64])
                else:
                    self._mounted(layer, number)
        return lost

    def _mounted(self, layer: Layer, wanted: int | None = None) -> int:
        """Mount a layer unless it is mounted already; return its slot."""
        number = self._slots.get(layer.name)
        if number is not None:
            return number
        taken = set(self._slots.values())
        number = wanted if wanted is not None else next((n for n in range(SLOTS) if n not in taken), SLOTS)
        if not 0 <= number < SLOTS:
            raise Refused(
                f"The sandbox has {SLOTS} installs already.",
                hint="Install several packages at once, or make an environment that has them.",
            )
        use = layer.use()
        try:
            found = os.stat(layer.folder, follow_symlinks=False)
            self._box.held().mount_layer(layer.folder, (found.st_dev, found.st_ino), number)
        except BaseException:
            os.close(use)
            raise
        self._uses.append(use)
        note = {"method": "note_layer", "name": layer.name, "number": number}
        call(self._box, note, "The layer cannot be noted", begun=True)
        self._details[layer.name] = layer.details
        self._slots[layer.name] = number
        return number

    def _own(self) -> Sequence[InstalledPackage]:
        """The packages in the workspace, as the agent lists them."""
        reply = call(self._box, {"method": "list_packages"}, "The packages cannot be listed")
        try:
            listed = [
                InstalledPackage(str(name)[:200], str(version)[:100], str(language), "sandbox")
                for language, name, version in list(reply["packages"])[:_MAX_LISTED]
            ]
        except NONSENSE:
            return []
        return listed

    # --- requests from inside

    def _serve(self, payload: bytes) -> None:
        number: object = 0
        try:
            request = loads(payload)
            number = request.get("call")
            answer = self._carry_out(request)
        except ClocheError as problem:
            answer = {"err": f"ERROR: {problem.message}\n{problem.hint}\n".replace("\n\n", "\n"), "exit": 1}
        except NONSENSE:
            answer = {"err": "ERROR: this is no request for packages\n", "exit": 2}
        except Exception as problem:  # the request must be answered, whatever happened
            answer = {"err": f"ERROR: the packages could not be installed ({type(problem).__name__})\n", "exit": 1}
        finally:
            self._requests -= 1
        try:
            frame = frames.encode(frames.REQUESTS, frames.ANSWER, dumps({"call": number, **answer}).encode())
            self._box.send(frame)
        except (ClocheError, ValueError):
            pass  # the sandbox has ended meanwhile

    def _carry_out(self, request: dict[str, Any]) -> dict[str, Any]:
        from cloche.model.manifests import MANIFESTS
        from cloche.model.packages import requirements_of

        if self._requests > _AT_ONCE:
            raise Refused(f"{_AT_ONCE} installs run in this sandbox already.", hint="Wait until they are done.")
        if request.get("ecosystem") in MANIFESTS:
            return self._dependencies(request)
        language = "javascript" if request.get("ecosystem") == "javascript" else "python"
        folder = request.get("folder") or _NODE_FOLDER
        if not isinstance(folder, str) or not folder.startswith("/"):
            raise InvalidRun("The folder for packages is not an absolute path.")
        locked: Sequence[LockedPackage] = ()
        if "locked" in request:
            done = self._install_locked(request["locked"], folder)
        else:
            wanted = requirements_of(request["requirements"], language)
            done, locked = self._install(wanted, folder, upgrade=bool(request.get("upgrade")))
        return {
            "installed": [[each.name, each.version] for each in done.packages],
            "satisfied": [[each.name, each.version] for each in done.satisfied],
            "places": [[place, e.version, e.file.hash] for e in locked for place in e.place.split("\n") if place],
            "err": "".join(f"WARNING: {text}\n" for text in done.warnings),
            "restart": list(done.restart),
            "exit": 0,
        }

    def _dependencies(self, request: dict[str, Any]) -> dict[str, Any]:
        """Provide the dependencies of a project that Cargo, Go or Maven is about to build."""
        from cloche.model.manifests import manifests_of

        manifests = manifests_of(request)
        broker, policy = off_loop(_LONG, self._means)
        prepared = off_loop(_LONG, lambda: broker.dependencies(manifests, policy))
        place = ""
        if prepared.layer is not None:
            with self._changing:
                place = slot(self._mounted(prepared.layer))
        return {
            "layer": place,
            "files": prepared.files,
            "output": prepared.output,
            "err": "".join(f"warning: {text}\n" for text in prepared.warnings),
            "exit": 0,
        }


def _by_ecosystem(requirements: Sequence[Requirement]) -> list[list[Requirement]]:
    found: dict[str, list[Requirement]] = {}
    for each in requirements:
        found.setdefault(each.ecosystem, []).append(each)
    return list(found.values())


def _joined(first: Install, second: Install) -> Install:
    return Install(*(getattr(first, name) + getattr(second, name) for name in Install._fields))


def _for_agent(layer: Layer) -> list[dict[str, Any]]:
    return [{name: each[name] for name in _FOR_AGENT if name in each} for each in layer.details["packages"]]
