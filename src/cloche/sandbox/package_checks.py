"""Checks the packages that a caller names."""

from __future__ import annotations

from _collections_abc import Iterable, Mapping

from cloche.errors import InvalidRun
from cloche.model.packages import Requirement, requirements_of

_NPM = "npm:"
_LANGUAGES = {"python": "python", "javascript": "javascript", "typescript": "javascript", "npm": "javascript"}


def ecosystem_of(language: str) -> str:
    """The ecosystem of a language's packages."""
    if language not in _LANGUAGES:
        raise InvalidRun(f"{language!r:.50} has no packages here.", hint="Say python or javascript.")
    return _LANGUAGES[language]


def checked_packages(
    packages: Iterable[str] | Mapping[str, Iterable[str]] | None, language: str = "python"
) -> tuple[Requirement, ...]:
    """The requirements that a caller wrote: a list, or lists by language.

    In a list, a name with `npm:` in front is one for JavaScript.
    """
    if packages is None:
        return ()
    if isinstance(packages, Mapping):
        return requirements_of(packages, "python")
    texts = [packages] if isinstance(packages, str) else list(packages)
    usual = ecosystem_of(language) if language in _LANGUAGES else "python"
    npm = [text.removeprefix(_NPM) for text in texts if isinstance(text, str) and text.startswith(_NPM)]
    others = [text for text in texts if not (isinstance(text, str) and text.startswith(_NPM))]
    return (*requirements_of(others, usual), *requirements_of(npm, "javascript"))
