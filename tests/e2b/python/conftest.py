"""What tests of the Python client share: a sandbox of each kind, which ends with its test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from e2b_code_interpreter import AsyncSandbox, Sandbox


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    """A sandbox for tests that do not mind what others left in it."""
    with Sandbox.create() as sandbox:
        yield sandbox


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A fresh sandbox."""
    with Sandbox.create() as fresh:
        yield fresh


@pytest.fixture
async def async_sandbox() -> AsyncIterator[AsyncSandbox]:
    """A fresh sandbox, for asyncio."""
    async with await AsyncSandbox.create() as fresh:
        yield fresh
