"""Which languages can be tried here: tests of a language whose tools are missing are skipped, but fail on CI."""

from __future__ import annotations

import os

import pytest

from cloche import languages
from cloche.languages.language import Language

NEVER_ON_CI = ("julia",)  # Debian does not have it


def needs(name: str) -> Language:
    """The language; a test that cannot have its tools ends here, with the reason."""
    language = languages.find(name)
    if languages.tools(language) is None:
        reason = f"{language.title} is not installed on this host"
        if os.environ.get("CI") and language.name not in NEVER_ON_CI:
            pytest.fail(reason)
        pytest.skip(reason)
    return language


def is_here(name: str) -> bool:
    """Are its tools on this host?"""
    return name in languages.names() and languages.tools(languages.find(name)) is not None
