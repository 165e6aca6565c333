"""What tests of sessions share: warm kernels, and a sandbox for tests that do not mind what others left in it.

Each of them runs in this process, and over HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.places import place, pytest_collection_modifyitems

import cloche

__all__ = ["place", "pytest_collection_modifyitems"]


@pytest.fixture(scope="session", autouse=True)
def warm(jail: None) -> None:
    """Kernels fork from an IPython that is loaded."""
    cloche.warm_up()


@pytest.fixture(scope="module")
def shared(warm: None, place: str) -> Iterator[cloche.Sandbox]:
    """One sandbox for all tests of a module."""
    with cloche.Sandbox(memory="1G", processes=100) as sandbox:
        yield sandbox
