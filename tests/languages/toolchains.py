"""Skips the tests of languages whose tools are missing on this host; on CI they fail."""

from __future__ import annotations

import os

import pytest

from cloche import languages
from cloche.languages.language import Language

NEVER_ON_CI = ("julia",)  # Debian has no package of it


def needs(name: str) -> Language:
    """Return the language; skip the test if its tools are missing."""
    language = languages.find(name)
    if languages.tools(language) is None:
        reason = f"{language.title} is not installed on this host"
        if os.environ.get("CI") and language.name not in NEVER_ON_CI:
            pytest.fail(reason)
        pytest.skip(reason)
    return language


def is_here(name: str) -> bool:
    return name in languages.names() and languages.tools(languages.find(name)) is not None
