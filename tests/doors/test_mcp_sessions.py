"""MCP sessions: how a new one is announced, and how clients that open a connection for every call go on with it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from tests.conftest import Server
from tests.doors.test_mcp import announced, client_of, run, text, told
from tests.waiting import eventually_async

from cloche.doors.mcp.kept_sessions import MOST

MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])


async def one_call(server: Server, name: str, key: str | None = None, mode: str = "legacy", **arguments: Any) -> Any:
    """Call a tool over a connection of its own, as llama-index and pydantic-ai do."""
    async with client_of(server, key, mode) as client:
        return await client.call_tool(name, arguments)


def is_alive(http: httpx2.Client, session: str) -> bool:
    return bool(http.get(f"/v1/sandboxes/{session}").json().get("state") == "alive")


@MODES
async def test_a_session_goes_on_over_other_connections(server: Server, http: httpx2.Client, mode: str) -> None:
    first = await one_call(server, "code_execution", mode=mode, code="x = 41; open('output/o.txt', 'w').write('o')")
    news = told(first)["new_session"]
    session = news["session"]
    assert session == told(first)["session"]
    assert news["outlives_connection"] is True
    assert news["idle_timeout"] == 900
    assert news["expires"].endswith("Z")
    assert f"[note] {news['message']}" == announced(first)
    for part in (f'pass session="{session}"', "It ends after 15 minutes without work", news["expires"]):
        assert part in news["message"]
    second = await one_call(server, "code_execution", mode=mode, code="x + 1", session=session)
    assert told(second)["results"] == ["42"]
    assert "new_session" not in told(second)
    assert announced(second) == ""
    read = await one_call(server, "files_read", mode=mode, path="output/o.txt", session=session)
    assert text(read) == "o"
    assert told(await one_call(server, "session_end", mode=mode, session=session))["done"] == "ended"
    ended = await one_call(server, "code_execution", mode=mode, code="x", session=session)
    assert "has ended: it was ended by its owner. Its variables and files are gone." in text(ended)
    assert "Leave `session` out to start a new session" in text(ended)


@MODES
async def test_the_session_of_somebody_else_is_not_found(server: Server, http: httpx2.Client, mode: str) -> None:
    made = http.post("/v1/keys", json={"owner": "a-stranger", "name": "test", "scopes": ["run"]}).json()
    session = told(await one_call(server, "code_execution", mode=mode, code="1"))["session"]
    theirs = await one_call(server, "code_execution", made["key"], mode, code="1", session=session)
    nobodys = await one_call(server, "code_execution", made["key"], mode, code="1", session="sbx_nothing")
    assert theirs.is_error
    assert text(theirs) == text(nobodys).replace("sbx_nothing", session)
    assert is_alive(http, session)
    await one_call(server, "session_end", session=session)


async def test_every_tool_announces_the_session_that_it_makes(server: Server) -> None:
    for name, arguments in (
        ("files_write", {"path": "a", "content": "a"}),
        ("files_list", {}),
        ("checkpoint", {}),
        ("session_restart", {}),
    ):
        result = await one_call(server, name, **arguments)
        assert told(result)["new_session"]["session"] == told(result)["session"], name
        assert told(result)["session"] in announced(result), name
    missing = await one_call(server, "files_read", path="no/such")
    assert missing.is_error
    assert "This is a new, empty session" in announced(missing)


async def test_each_tool_says_how_a_session_is_kept(server: Server) -> None:
    async with client_of(server) as client:
        tools = (await client.list_tools()).tools
    about = [tool.input_schema["properties"].get("session") for tool in tools if "properties" in tool.input_schema]
    offered = [one["description"] for one in about if one]
    # all but session_create, session_list, packages_search and environment_list
    assert len(offered) == len(tools) - 4
    assert all("opens a connection for every call" in one for one in offered)


async def test_sessions_that_no_connection_names_again_do_not_pile_up(server: Server, http: httpx2.Client) -> None:
    key = http.post("/v1/keys", json={"owner": "hoarder", "name": "test", "scopes": ["run"]}).json()["key"]
    with server.client(key) as own:
        made = [told(await one_call(server, "code_execution", key, code="1"))["session"] for _ in range(MOST)]
        await one_call(server, "code_execution", key, code="1", session=made[0])  # stays from now on
        made += [told(await one_call(server, "code_execution", key, code="1"))["session"] for _ in range(2)]
        await eventually_async(lambda: not is_alive(own, made[1]))
        assert [is_alive(own, session) for session in made] == [True, False, True, True, True, True]
        for session in made:
            await one_call(server, "session_end", key, session=session)


async def test_waiting_sessions_make_room(server: Server, http: httpx2.Client) -> None:
    limits = {"sandboxes": 1}
    asked = {"owner": "one-at-a-time", "name": "test", "scopes": ["run"], "limits": limits}
    key = http.post("/v1/keys", json=asked).json()["key"]
    with server.client(key) as own:
        first = told(await one_call(server, "code_execution", key, code="1"))["session"]
        async with client_of(server, key) as client:
            second = told(await run(client, "1"))["session"]
            assert not is_alive(own, first)
            assert is_alive(own, second)
            refused = await client.call_tool("session_create", {})  # the connection's own session does not give way
            assert "sandboxes" in text(refused)
            await client.call_tool("session_end", {})


async def test_a_session_that_another_connection_uses_outlives_its_own(server: Server, http: httpx2.Client) -> None:
    key = http.post("/v1/keys", json={"owner": "two-at-once", "name": "test", "scopes": ["run"]}).json()["key"]
    async with client_of(server, key) as user:
        async with client_of(server, key) as maker:
            session = told(await run(maker, "x = 1"))["session"]
            assert told(await run(user, "x", session=session))["results"] == ["1"]
        for _ in range(MOST + 1):  # these wait to be named, and the last ends the first
            await one_call(server, "code_execution", key, code="1")
        assert told(await run(user, "x", session=session))["results"] == ["1"]
        living = told(await user.call_tool("session_list", {}))["sessions"]
        await asyncio.gather(*(user.call_tool("session_end", {"session": one["session"]}) for one in living))
