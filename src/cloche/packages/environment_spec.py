"""Makes the specification of an environment from the plain values that the command line and the service get."""

from __future__ import annotations

from cloche.model.environments import EnvironmentSpec, Step, check_spec
from cloche.model.packages import requirements_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cloche.model.packages import Requirement


def spec_of(
    *,
    packages: Iterable[str] = (),
    npm: Iterable[str] = (),
    requirements: Sequence[Requirement] = (),
    files: Mapping[str, bytes | tuple[bytes, int]] | None = None,
    setup: str = "",
    steps: Sequence[Step] = (),
    imports: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
    base: str = "",
    from_lock: bool = False,
) -> EnvironmentSpec:
    """Return a specification: variables and files come first, then the setup script, then the other steps."""
    from cloche.sandbox.checks import checked_env

    written = tuple(
        (path, *(given if isinstance(given, tuple) else (given, 0o644))) for path, given in (files or {}).items()
    )
    first: list[Step] = []
    if env:
        first.append(Step("env", variables=checked_env(env)))
    if written:
        first.append(Step("write", files=written))
    if setup:
        first.append(Step("script", setup))
    wanted = (*requirements, *requirements_of(packages, "python"), *requirements_of(npm, "javascript"))
    spec = EnvironmentSpec(
        packages=tuple(dict.fromkeys(wanted)),
        steps=(*first, *steps),
        imports=tuple(dict.fromkeys(imports)),
        base=base,
        from_lock=from_lock,
    )
    check_spec(spec)
    return spec
