"""The broker of this process, and the operator's policy for packages."""

from __future__ import annotations

from _thread import allocate_lock

from cloche import environment, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.model.environments import Environment, EnvironmentMount
    from cloche.model.installs import FoundPackages
    from cloche.packages.broker import Broker
    from cloche.packages.policy import PackagePolicy

_lock = allocate_lock()
_shared: dict[str, Broker] = {}
_policies: dict[str, PackagePolicy] = {}


def shared() -> Broker:
    """The broker for the folder of packages that the settings name."""
    from cloche.packages.broker import Broker

    folder = _folder()
    with _lock:
        if folder not in _shared:
            _shared[folder] = Broker(folder, settings.load().environment or environment.location())
        return _shared[folder]


def search(text: str, language: str, callers: PackagePolicy | None = None) -> FoundPackages:
    """Look for packages of a language ("python" or "javascript"); `callers` is the policy of a server's caller."""
    from cloche.packages.patterns import NOTHING
    from cloche.packages.search import search as look

    broker, in_force = shared(), callers or policy()
    folder = "" if in_force.allow == (NOTHING,) else _folder()
    return look(text, language, broker.environment, broker.present()[language], folder)


def policy() -> PackagePolicy:
    """The operator's policy for packages."""
    from cloche.packages.policy import PackagePolicy, policy_of

    text = settings.load().packages
    with _lock:
        if text not in _policies:
            _policies[text] = policy_of(settings.packages_policy(text)) if text else PackagePolicy()
        return _policies[text]


def find_environment(name: str) -> Environment:
    """An environment of this host."""
    from cloche.packages.environments import Environments

    return Environments(shared()).find(name)


def mount(environment: Environment) -> tuple[EnvironmentMount, tuple[int, ...]]:
    """Prepare an environment's layers for a sandbox; this may take long."""
    from cloche.packages.environments import Environments

    return Environments(shared()).mount(environment, policy())


def _folder() -> str:
    return settings.load().packages_folder or f"{settings.data_home()}/cloche/packages"
