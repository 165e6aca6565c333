"""What tests share: a real jail, and a fresh sandbox in it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

import cloche


@pytest.fixture(scope="session")
def jail() -> None:
    """A jail that works; on CI it has to, elsewhere its absence is a reason to skip."""
    try:
        result = cloche.run("print('works')")
    except (cloche.SandboxFailed, cloche.Misconfigured) as problem:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no jail on this host: {problem}")
    assert result.stdout == "works\n"


@pytest.fixture
def box(jail: None) -> Iterator[cloche.Sandbox]:
    """A fresh sandbox."""
    with cloche.Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
async def async_box(jail: None) -> AsyncIterator[cloche.AsyncSandbox]:
    """A fresh sandbox, for asyncio."""
    async with cloche.AsyncSandbox() as sandbox:
        yield sandbox
