"""Sandboxes: made, found, listed, given time, ended."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from e2b_code_interpreter import AsyncSandbox, Sandbox

from e2b import (
    AuthenticationException,
    SandboxException,
    SandboxNotFoundException,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)


def mark() -> dict[str, str]:
    """Metadata that no other sandbox has."""
    return {"run of": str(uuid4()), "a b": "c d&e=f %41"}


def test_a_sandbox_says_what_it_is(sandbox: Sandbox) -> None:
    info = sandbox.get_info()

    assert info.sandbox_id == sandbox.sandbox_id
    assert info.template_id == "code-interpreter-v1"
    assert info.state is SandboxState.RUNNING
    assert timedelta(seconds=299) < info.end_at - info.started_at < timedelta(seconds=301)
    assert (info.cpu_count, info.memory_mb, info.envd_version) == (2, 1024, "0.6.13")
    assert info.allow_internet_access is True  # the client asks for it by default, and gets what the server allows
    assert abs(datetime.now(UTC) - info.started_at) < timedelta(seconds=30)
    assert sandbox.get_host(3000).startswith(f"3000-{sandbox.sandbox_id}.localhost:")


def test_one_is_killed_once() -> None:
    sandbox = Sandbox.create()

    assert sandbox.is_running()
    assert sandbox.kill()
    assert not sandbox.is_running()
    assert not sandbox.kill()
    assert not Sandbox.kill(sandbox.sandbox_id)
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()
    with pytest.raises(SandboxNotFoundException):
        sandbox.set_timeout(10)
    with pytest.raises(TimeoutException):
        sandbox.run_code("1")


def test_it_ends_when_its_time_is_up() -> None:
    sandbox = Sandbox.create(timeout=2)
    sandbox.set_timeout(1)
    begin = time.monotonic()

    while sandbox.is_running():
        assert time.monotonic() - begin < 10
        time.sleep(0.05)

    assert time.monotonic() - begin > 0.5


def test_connecting_gives_time_and_takes_none(sandbox: Sandbox) -> None:
    before = sandbox.get_info().end_at

    again = Sandbox.connect(sandbox.sandbox_id, timeout=10)
    assert again.get_info().end_at == before
    sandbox.connect(timeout=1000)
    assert again.get_info().end_at - before > timedelta(seconds=600)
    again.set_timeout(20)
    assert sandbox.get_info().end_at < before


def test_what_is_connected_to_is_the_same_sandbox(sandbox: Sandbox) -> None:
    sandbox.run_code("x = 41")

    assert Sandbox.connect(sandbox.sandbox_id).run_code("x + 1").text == "42"


def test_listing_by_metadata_in_pages_and_in_order() -> None:
    metadata = mark()
    made = [Sandbox.create(metadata=metadata) for _ in range(3)]
    try:
        query = SandboxQuery(metadata=metadata)
        pages = Sandbox.list(query=query, limit=2)
        first = pages.next_items()
        assert pages.has_next
        rest = pages.next_items()
        assert not pages.has_next
        assert [one.sandbox_id for one in first + rest] == [one.sandbox_id for one in reversed(made)]
        assert first[0].metadata == metadata
        oldest_first = Sandbox.list(query=query, order="asc").next_items()
        assert [one.sandbox_id for one in oldest_first] == [one.sandbox_id for one in made]
        for one in oldest_first:
            since = Sandbox.list(query=SandboxQuery(metadata=metadata, started_after=one.started_at)).next_items()
            assert one.sandbox_id in [other.sandbox_id for other in since]
        assert Sandbox.list(query=SandboxQuery(metadata={**metadata, "a b": "c"})).next_items() == []
        assert Sandbox.list(query=SandboxQuery(metadata=metadata, state=[SandboxState.PAUSED])).next_items() == []
    finally:
        for sandbox in made:
            sandbox.kill()


def test_an_idempotency_key_makes_one_sandbox() -> None:
    key = str(uuid4())
    first = Sandbox.create(idempotency_key=key)
    with Sandbox.create(idempotency_key=key) as second:
        assert first.sandbox_id == second.sandbox_id


def test_what_goes_wrong_is_told_in_the_clients_own_words() -> None:
    with pytest.raises(SandboxException, match="Template 'no-such' not found"):
        Sandbox.create("no-such")
    with pytest.raises(AuthenticationException):
        Sandbox.create(api_key="e2b_" + "0" * 40)
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect("sbxnosuch")
    with pytest.raises(SandboxException, match="Timeout cannot be greater than"):
        Sandbox.create(timeout=1_000_000_000)
    with pytest.raises(SandboxException, match="egressProxy is not supported"):
        Sandbox.create(network={"egress_proxy": {"address": "proxy.example.org:1080"}})


def test_metrics(sandbox: Sandbox) -> None:
    sandbox.run_code("sum(i * i for i in range(300_000))")
    (found,) = sandbox.get_metrics()

    assert (found.cpu_count, found.mem_total, found.disk_total) == (2, 1 << 30, 1 << 30)
    assert found.mem_used > 1_000_000
    assert found.cpu_used_pct > 0
    assert sandbox.get_metrics(end=datetime.now(UTC) - timedelta(hours=1)) == []


async def test_all_of_it_asynchronously() -> None:
    metadata = mark()
    async with await AsyncSandbox.create(metadata=metadata, timeout=60) as sandbox:
        assert await sandbox.is_running()
        await sandbox.set_timeout(120)
        info = await sandbox.get_info()
        assert info.end_at - info.started_at > timedelta(seconds=119)
        (listed,) = await AsyncSandbox.list(query=SandboxQuery(metadata=metadata)).next_items()
        assert listed.sandbox_id == sandbox.sandbox_id
        again = await AsyncSandbox.connect(sandbox.sandbox_id)
        assert (await again.run_code("6 * 7")).text == "42"
        assert len(await sandbox.get_metrics()) == 1
        assert await sandbox.kill()
        assert not await AsyncSandbox.kill(sandbox.sandbox_id)
        assert not await sandbox.is_running()
