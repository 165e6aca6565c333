"""What this server has not: told in the client's own exceptions, and in plain words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from e2b_code_interpreter import AsyncSandbox, Sandbox

from e2b import (
    AsyncTemplate,
    AsyncVolume,
    SandboxException,
    Template,
    Volume,
    VolumeException,
)


def test_volumes() -> None:
    asks: list[Callable[[], object]] = [
        Volume.list,
        *(partial(ask, "x") for ask in (Volume.create, Volume.connect, Volume.destroy)),
    ]
    for ask in asks:
        with pytest.raises(VolumeException, match="Volumes are not supported"):
            ask()
    with pytest.raises(SandboxException, match="volumeMounts"):
        Sandbox.create(volume_mounts={"/mnt/x": "x"})


def test_templates_of_the_server() -> None:
    assert Template.exists("base")
    assert Template.exists("code-interpreter-v1")
    assert not Template.exists("no-such")
    with pytest.raises(SandboxException, match="no-such"):
        Sandbox.create("no-such")


def test_a_gateway_for_mcp() -> None:
    with pytest.raises(SandboxException, match="no MCP gateway"):
        Sandbox.create(mcp={"browserbase": {}})


async def test_all_of_it_asynchronously() -> None:
    with pytest.raises(VolumeException):
        await AsyncVolume.list()
    assert await AsyncTemplate.exists("base")
    with pytest.raises(SandboxException):
        await AsyncSandbox.create("no-such")
