"""MCP over streamable HTTP: the SDK's own client against a real server, in both ways that the protocol has."""

from __future__ import annotations

import asyncio
import base64
import struct
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import Any

import httpx2
import mcp_types as types
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.conftest import Server
from tests.waiting import eventually, eventually_async

from cloche.doors.mcp.file_uris import file_at, kind_of, uri_of
from cloche.doors.mcp.idle_conversations import MOST
from cloche.doors.mcp.server import TOOLS
from cloche.errors import InvalidRun

PNG = b"\x89PNG\r\n\x1a\n"


@asynccontextmanager
async def client_of(server: Server, key: str | None = None, mode: str = "legacy") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {server.key if key is None else key}"}
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False))
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        yield await stack.enter_async_context(Client(transport, mode=mode))


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    """A client that keeps its connection, as nearly all do today."""
    ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def hold() -> None:  # pytest sets fixtures up and tears them down in different tasks, which the SDK minds
        async with client_of(server) as connected:
            ready.set_result(connected)
            await over.wait()

    holder = asyncio.create_task(hold())
    either: list[asyncio.Future[Any]] = [ready, holder]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    yield ready.result()
    over.set()
    await holder


@pytest.fixture
def other_key(http: httpx2.Client) -> str:
    """The key of somebody else."""
    made = http.post("/v1/keys", json={"owner": "somebody-else", "name": "test", "scopes": ["run"]})
    secret: str = next(value for value in made.json().values() if str(value).startswith("cloche_"))
    return secret


async def run(client: Client, code: str, **more: Any) -> types.CallToolResult:
    return await client.call_tool("code_execution", {"code": code, **more})


def text(result: types.CallToolResult) -> str:
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text


def announced(result: types.CallToolResult) -> str:
    """The announcement of a new session, or nothing."""
    last = result.content[-1]
    return last.text if isinstance(last, types.TextContent) and last.text.startswith("[note] ") else ""


def told(result: types.CallToolResult) -> dict[str, Any]:
    assert not result.is_error, text(result)
    answer: dict[str, Any] = result.structured_content
    return answer


def pictures(result: types.CallToolResult) -> list[types.ImageContent]:
    return [block for block in result.content if isinstance(block, types.ImageContent)]


# What is offered


async def test_every_tool_is_described_for_a_model(client: Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {
        "code_execution",
        *(f"session_{what}" for what in ("create", "list", "end", "restart", "interrupt")),
        *(f"files_{what}" for what in ("read", "write", "list")),
        *("checkpoint", "restore", "undo"),
        *("packages_install", "packages_search", "environment_list"),
    }
    reading = {"session_list", "files_read", "files_list", "packages_search", "environment_list"}
    for tool in tools.values():
        assert tool.title
        assert tool.description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (tool.name in reading)
        for schema in (tool.input_schema, tool.output_schema):
            assert schema is not None
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        for name, about in tool.input_schema.get("properties", {}).items():
            assert "type" in about, f"{tool.name}({name}) has no plain type"
            assert about.get("description")
    assert set(tools["code_execution"].input_schema["required"]) == {"code"}
    assert client.instructions


# code_execution


async def test_state_stays_from_call_to_call_and_a_new_conversation_starts_clean(server: Server) -> None:
    async with client_of(server) as first, client_of(server) as second:
        assert told(await run(first, "x = 41"))["exit_code"] == 0
        result = await run(first, "print('hi')\nx + 1")
        answer = told(result)
        assert answer["results"] == ["42"]
        assert answer["stdout"] == "hi\n"
        assert text(result) == "[result] 42\n[stdout] hi"
        stranger = await run(second, "x")
        assert stranger.is_error
        assert "NameError" in text(stranger)


async def test_code_that_fails_is_an_error_with_a_way_out(client: Client) -> None:
    result = await run(client, "def f():\n    return 1 / 0\nf()")
    assert result.is_error
    assert "ZeroDivisionError" in text(result)
    assert "line 2" in text(result)
    assert result.structured_content["error"]["kind"] == "runtime"
    assert result.structured_content["error"]["hint"]
    Draft202012Validator(_schema_of("code_execution")).validate(result.structured_content)


def _schema_of(name: str) -> dict[str, Any]:
    schema = TOOLS[name].described().output_schema
    assert schema is not None
    return schema


async def test_a_plot_is_an_image(client: Client) -> None:
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.title('Growth')\nplt.show()"
    result = await run(client, code)
    (picture,) = pictures(result)
    assert picture.mime_type == "image/png"
    assert base64.b64decode(picture.data).startswith(PNG)
    assert told(result)["images"] == 1
    assert "Growth" in text(result)


async def test_what_only_claims_to_be_a_picture_is_left_out(client: Client) -> None:
    broken = base64.b64encode(PNG + bytes(20)).decode()
    for data in ("bm8gcGljdHVyZQ==", broken, _png()[:-8]):
        code = f"from IPython.display import display\ndisplay({{'image/png': {data!r}}}, raw=True)"
        result = await run(client, code)
        assert pictures(result) == []
        assert "1 pictures are not shown" in text(result)


async def test_a_picture_has_the_type_of_its_content(client: Client, http: httpx2.Client) -> None:
    """Services for models refuse a PNG that is called a JPEG."""
    code = f"from IPython.display import display\ndisplay({{'image/jpeg': {_png()!r}}}, raw=True)"
    result = await run(client, code)
    assert [(one.mime_type, one.data) for one in pictures(result)] == [("image/png", _png())]
    asked = {"code": f"{code}\ndisplay({{'image/png': 'bm8='}}, raw=True)", "view": "model"}
    answer = http.post(f"/v1/sandboxes/{told(result)['session']}/run", json=asked).json()
    assert answer["images"] == [{"mime": "image/png", "data": _png()}]
    assert "1 pictures are not shown" in answer["text"]


async def test_no_more_pictures_than_a_model_can_look_at(client: Client) -> None:
    one = "import base64, struct, zlib\nfrom IPython.display import display\n"
    result = await run(client, f"{one}for _ in range(12): display({{'image/png': {_png()!r}}}, raw=True)")
    assert len(pictures(result)) == 8
    assert "4 pictures are not shown" in text(result)


def _png() -> str:
    """A picture of one pixel."""
    rows = zlib.compress(b"\0\0")
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b""))
    parts = (
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )
    return base64.b64encode(PNG + b"".join(parts)).decode()


async def test_progress_tells_what_is_printed_while_it_runs(client: Client) -> None:
    seen: list[tuple[float, str | None]] = []
    first = asyncio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))
        first.set()

    code = "import time\nprint('step one', flush=True)\nopen('go', 'w').close()\n"
    code += "import os\nwhile os.path.exists('go'): time.sleep(0.05)\nprint('step two')"
    running = asyncio.create_task(client.call_tool("code_execution", {"code": code}, progress_callback=note))
    await asyncio.wait_for(first.wait(), 30)
    assert seen[0][1] == "step one"  # while it runs: it waits for us
    assert (await client.call_tool("code_execution", {"code": "rm go", "language": "bash"})).is_error is False
    assert not (await running).is_error
    numbers = [progress for progress, _ in seen]
    assert numbers == sorted(set(numbers))
    assert "step two" in str(seen[-1][1])


async def test_a_call_that_is_given_up_stops_the_code(client: Client, http: httpx2.Client) -> None:
    session = told(await run(client, "y = 7"))["session"]
    began = asyncio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        began.set()

    endless = {"code": "print('on', flush=True)\nimport time\ntime.sleep(300)", "timeout": 300}
    running = asyncio.create_task(client.call_tool("code_execution", endless, progress_callback=note))
    await asyncio.wait_for(began.wait(), 30)
    running.cancel()
    await asyncio.wait([running])
    await eventually_async(
        lambda: not http.get("/v1/runs", params={"sandbox": session, "state": "running"}).json()["items"]
    )
    assert told(await run(client, "y"))["results"] == ["7"]


async def test_every_execution_is_a_recorded_run(client: Client, http: httpx2.Client) -> None:
    answer = told(await run(client, "print(1)"))
    record = http.get(f"/v1/runs/{answer['run_id']}").json()
    assert (record["sandbox"], record["state"], record["language"]) == (answer["session"], "done", "python")


async def test_the_languages_that_are_installed_are_offered(client: Client, http: httpx2.Client) -> None:
    tool = next(tool for tool in (await client.list_tools()).tools if tool.name == "code_execution")
    states = {one["name"]: one for one in http.get("/v1/languages").json()["items"]}
    ready = [name for name, one in states.items() if one["state"] in ("ready", "old")]
    about = tool.input_schema["properties"]["language"]
    assert about["enum"] == ready
    assert http.get("/containers").json()["items"][0]["languages"] == ready
    assert tool.description is not None
    assert all(states[name]["title"] in tool.description for name in ready)
    assert all(states[name]["title"] in about["description"] for name in ready if states[name]["sessions"])
    assert "{" not in tool.description
    for name in sorted(set(states) - set(ready)):  # accepted, in case it is installed later
        refused = await run(client, "1", language=name)
        assert refused.structured_content["error"]["kind"] == "unavailable"
        assert refused.structured_content["error"]["hint"]
    assert told(await run(client, "echo $((1 + 1))", language="sh"))["stdout"] == "2\n"  # an alias


async def test_other_languages_share_the_files(client: Client) -> None:
    assert not (await run(client, "open('f.txt', 'w').write('from python')")).is_error
    assert told(await run(client, "cat f.txt", language="bash"))["stdout"] == "from python"


async def test_time_that_is_up_is_told_and_variables_stay(client: Client) -> None:
    await run(client, "z = 5")
    result = await run(client, "import time\ntime.sleep(60)", timeout=1)
    assert result.is_error
    assert result.structured_content["error"]["kind"] == "timeout"
    assert told(await run(client, "z"))["results"] == ["5"]


async def test_long_output_is_cut_for_model_and_program_alike(client: Client) -> None:
    result = await run(client, "print('a' * 300_000)")
    assert len(text(result)) < 30_000
    assert len(told(result)["stdout"]) < 21_000
    assert told(result)["truncated"] is True


async def test_bytes_that_are_no_text_do_not_break_the_answer(client: Client) -> None:
    code = "import sys, os\nsys.stdout.buffer.write(b'\\xff\\xfe ok\\n')\n"
    code += "open(os.fsencode('output/') + b'\\xff.txt', 'w').write('named oddly')"
    result = await run(client, code)
    answer = told(result)
    assert "ok" in answer["stdout"]
    (artifact,) = answer["artifacts"]
    contents = (await client.read_resource(artifact["uri"])).contents[0]
    assert isinstance(contents, types.TextResourceContents)
    assert contents.text == "named oddly"


# Arguments and errors


@pytest.mark.parametrize(
    ("name", "arguments", "part"),
    [
        ("code_execution", {}, "code: Field required"),
        ("code_execution", {"code": "1", "lang": "python"}, "lang: Extra inputs"),
        ("code_execution", {"code": "1", "language": "cobol"}, "Installed languages: bash, "),
        ("code_execution", {"code": "1", "timeout": 1e9}, "at most"),
        ("code_execution", {"code": "1", "session": "sbx_nothing"}, "Leave `session` out to start a new session"),
        ("files_read", {"path": "no/such"}, "no/such"),
        ("files_write", {"path": "a"}, "either content or content_base64"),
        ("files_write", {"path": "a", "content_base64": "%"}, "not base64"),
        ("restore", {"checkpoint": "nothing"}, "Make one with `checkpoint`"),
        ("undo", {}, "session_create with undo=true"),
        ("session_create", {"memory": "much"}, "not a size"),
    ],
)
async def test_what_cannot_be_done_says_why_and_what_to_do(
    client: Client, name: str, arguments: dict[str, Any], part: str
) -> None:
    result = await client.call_tool(name, arguments)
    assert result.is_error
    assert result.structured_content is None
    assert text(result).startswith("[error] ")
    assert part in text(result)


async def test_an_unknown_tool_is_a_protocol_error(client: Client) -> None:
    with pytest.raises(MCPError, match="Unknown tool: rm") as caught:
        await client.call_tool("rm", {})
    assert caught.value.code == types.INVALID_PARAMS


# Sessions


async def test_a_session_of_ones_own_choice(client: Client) -> None:
    made = await client.call_tool("session_create", {"name": "apart", "undo": True, "memory": "256M"})
    session = told(made)["session"]
    await run(client, "a = 1", session=session)
    await run(client, "a = 2", session=session)
    assert (await run(client, "a")).is_error  # not in the conversation's own
    assert told(await client.call_tool("undo", {"session": session}))["session"] == session
    assert told(await run(client, "a", session=session))["results"] == ["1"]
    sessions = {one["session"]: one for one in told(await client.call_tool("session_list", {}))["sessions"]}
    assert sessions[session]["name"] == "apart"
    assert [one["is_own"] for one in sessions.values()].count(True) == 1
    assert told(await client.call_tool("session_end", {"session": session}))["done"] == "ended"
    gone = await run(client, "a", session=session)
    assert gone.is_error
    assert "it was ended by its owner" in text(gone)


async def test_a_sandbox_made_elsewhere_is_shared(client: Client, http: httpx2.Client) -> None:
    session = http.post("/v1/sandboxes", json={}).json()["id"]
    http.post(f"/v1/sandboxes/{session}/run", json={"code": "shared = 'live'"})
    assert told(await run(client, "shared", session=session))["results"] == ["'live'"]
    http.delete(f"/v1/sandboxes/{session}")


async def test_restart_forgets_variables_and_end_forgets_all(client: Client) -> None:
    await run(client, "v = 1; open('kept', 'w').write('x')")
    assert told(await client.call_tool("session_restart", {}))["done"] == "restarted"
    assert told(await run(client, "import os\nos.path.exists('kept'), 'v' in globals()"))["results"] == [
        "(True, False)"
    ]
    assert told(await client.call_tool("session_end", {}))["done"] == "ended"
    fresh = await run(client, "import os\nos.path.exists('kept')")
    assert told(fresh)["results"] == ["False"]
    assert "has ended: it was ended by its owner" in announced(fresh)
    assert "This is a new, empty session" in announced(fresh)


async def test_interrupt_stops_what_runs(client: Client) -> None:
    began = asyncio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        began.set()

    code = {"code": "print('on', flush=True)\nimport time\ntime.sleep(300)", "timeout": 300}
    running = asyncio.create_task(client.call_tool("code_execution", code, progress_callback=note))
    await asyncio.wait_for(began.wait(), 30)
    assert told(await client.call_tool("session_interrupt", {}))["done"] == "interrupted"
    assert "KeyboardInterrupt" in text(await running)


async def test_checkpoint_and_restore(client: Client) -> None:
    await run(client, "n = 1; open('n.txt', 'w').write('one')")
    await run(client, "a=1", language="bash")
    saved = await client.call_tool("checkpoint", {"name": "before"})
    taken = told(saved)
    assert taken["name"] == "before"
    assert taken["lost"] == {"bash": {"variables": "language"}}
    assert taken["note"] == "Not kept: the variables (only Python's variables can be copied) of the context bash."
    assert taken["note"] in text(saved)
    await run(client, "n = 2; open('n.txt', 'w').write('two')")
    restored = told(await client.call_tool("restore", {"checkpoint": "before"}))
    assert restored["session"] == taken["session"]
    assert (restored["lost"], restored["note"]) == (taken["lost"], taken["note"])
    assert told(await run(client, "n, open('n.txt').read()"))["results"] == ["(1, 'one')"]
    unknown = await client.call_tool("restore", {"checkpoint": "after"})
    assert "Existing checkpoints: before." in text(unknown)


# Files


async def test_files_are_written_read_and_listed(client: Client) -> None:
    written = told(await client.call_tool("files_write", {"path": "data/a.csv", "content": "x,y\n1,2\n"}))
    assert written["path"] == "/sandbox/data/a.csv"
    await client.call_tool("files_write", {"path": "data/a.csv", "content": "3,4\n", "append": True})
    read = await client.call_tool("files_read", {"path": "data/a.csv"})
    assert text(read) == "x,y\n1,2\n3,4\n"
    assert (told(read)["mime"], told(read)["encoding"]) == ("text/csv", "text")
    listed = await client.call_tool("files_list", {"path": "data"})
    assert text(listed) == "/sandbox/data/a.csv (12 bytes)"
    assert told(listed)["entries"][0]["kind"] == "file"


async def test_a_long_file_is_read_in_parts_that_split_no_character(client: Client) -> None:
    await client.call_tool("files_write", {"path": "long.txt", "content": "é" * 100})
    parts: list[str] = []
    offset: int | None = 0
    while offset is not None:
        arguments = {"path": "long.txt", "offset": offset, "length": 33}
        answer = told(await client.call_tool("files_read", arguments))
        parts.append(answer["content"])
        offset = answer.get("next_offset")
    assert "".join(parts) == "é" * 100
    assert len(parts) > 3


async def test_bytes_come_as_base64_and_pictures_as_images(client: Client) -> None:
    data = bytes(range(256))
    await client.call_tool("files_write", {"path": "b.bin", "content_base64": base64.b64encode(data).decode()})
    answer = told(await client.call_tool("files_read", {"path": "b.bin"}))
    assert answer["encoding"] == "base64"
    assert base64.b64decode(answer["content"]) == data
    await client.call_tool("files_write", {"path": "p.png", "content_base64": _png()})
    shown = await client.call_tool("files_read", {"path": "p.png"})
    assert told(shown)["encoding"] == "image"
    assert pictures(shown)[0].data == _png()


async def _resource(client: Client, written: types.CallToolResult) -> Any:
    return (await client.read_resource(told(written)["uri"])).contents[0]


async def test_the_content_of_a_file_decides_whether_it_is_a_picture(client: Client) -> None:
    whole = base64.b64decode(_png())

    async def written_and_read(path: str, data: bytes) -> tuple[types.CallToolResult, Any]:
        arguments = {"path": path, "content_base64": base64.b64encode(data).decode()}
        written = await client.call_tool("files_write", arguments)
        return await client.call_tool("files_read", {"path": path}), await _resource(client, written)

    for path in ("output/p.png", "output/p.jpg", "output/p"):
        read, resource = await written_and_read(path, whole)
        assert [(one.mime_type, one.data) for one in pictures(read)] == [("image/png", _png())]
        assert (told(read)["mime"], told(read)["encoding"]) == ("image/png", "image")
        assert "1×1" in text(read)  # noqa: RUF001
        assert resource.mime_type == "image/png"
    for path, data in (("cut.png", whole[:-10]), ("noise.jpg", b"\xfe" * 100), ("cut", whole[:50])):
        read, resource = await written_and_read(path, data)
        assert pictures(read) == []
        assert (told(read)["mime"], told(read)["encoding"]) == ("application/octet-stream", "none")
        assert f"{path} cannot be shown as a picture: its {len(data)} bytes" in text(read)
        assert resource.mime_type == "application/octet-stream"
    read, resource = await written_and_read("text.png", b"no picture")
    assert (text(read), told(read)["mime"], told(read)["encoding"]) == ("no picture", "text/plain", "text")
    assert (resource.mime_type, resource.text) == ("text/plain", "no picture")
    await run(client, f"import base64\nopen('large.png', 'wb').write(base64.b64decode({_png()!r}) + bytes(3 << 20))")
    read = await client.call_tool("files_read", {"path": "large.png"})
    assert "the limit is 3 MB" in text(read)
    assert pictures(read) == []


# Resources


async def test_files_that_a_session_leaves_are_resources(client: Client) -> None:
    code = "open('output/r.md', 'w').write('# Report')\nopen('output/b.bin', 'wb').write(b'\\x00\\xff')\n"
    artifacts = {one["path"]: one for one in told(await run(client, code))["artifacts"]}
    listed = {resource.uri: resource for resource in (await client.list_resources()).resources}
    report = listed[artifacts["/sandbox/output/r.md"]["uri"]]
    assert (report.name, report.mime_type, report.size) == ("r.md", "text/markdown", 8)
    contents = (await client.read_resource(report.uri)).contents[0]
    assert isinstance(contents, types.TextResourceContents)
    assert (contents.text, contents.mime_type) == ("# Report", "text/markdown")
    blob = (await client.read_resource(artifacts["/sandbox/output/b.bin"]["uri"])).contents[0]
    assert isinstance(blob, types.BlobResourceContents)
    assert base64.b64decode(blob.blob) == b"\x00\xff"
    (template,) = (await client.list_resource_templates()).resource_templates
    assert template.uri_template == "cloche://sessions/{session}/files/{+path}"


@pytest.mark.parametrize("uri", ["cloche://sessions/sbx_none/files/a", "cloche://elsewhere/a", "file:///etc/passwd"])
async def test_what_is_no_file_of_a_session_cannot_be_read(client: Client, uri: str) -> None:
    with pytest.raises(MCPError) as caught:
        await client.read_resource(uri)
    assert caught.value.code == types.INVALID_PARAMS


@pytest.mark.parametrize("path", ["/sandbox/a b.txt", "/sandbox/x/ü#?%.csv", "/etc/hosts", "/sandbox/\udcff"])
def test_an_address_leads_back_to_its_file(path: str) -> None:
    session, found = file_at(uri_of("sbx_1", path))
    assert session == "sbx_1"
    assert found in (path, path.removeprefix("/sandbox/"))


def test_an_address_of_something_else_is_refused() -> None:
    with pytest.raises(InvalidRun, match="not the address"):
        file_at("cloche://sessions/sbx_1/files/")


@pytest.mark.parametrize(
    ("name", "kind"), [("a.csv", "text/csv"), ("b.PNG", "image/png"), ("Makefile", "application/octet-stream")]
)
def test_kinds(name: str, kind: str) -> None:
    assert kind_of(f"/sandbox/dir.d/{name}") == kind


# Owners


async def test_owners_do_not_see_each_other(server: Server, other_key: str) -> None:
    async with client_of(server) as mine, client_of(server, other_key) as theirs:
        session = told(await run(mine, "open('output/secret.txt', 'w').write('s')"))["session"]
        listed = told(await theirs.call_tool("session_list", {}))["sessions"]
        assert session not in [one["session"] for one in listed]
        assert (await theirs.list_resources()).resources == []
        for result in (
            await run(theirs, "1", session=session),
            await theirs.call_tool("files_read", {"path": "output/secret.txt", "session": session}),
            await theirs.call_tool("session_end", {"session": session}),
        ):
            assert result.is_error
            assert "There is no session" in text(result)
        with pytest.raises(MCPError, match="There is no session"):
            await theirs.read_resource(f"cloche://sessions/{session}/files/output/secret.txt")
        assert told(await run(mine, "1"))["session"] == session


def test_a_conversation_is_of_the_key_that_began_it(server: Server, http: httpx2.Client, other_key: str) -> None:
    headers = {"Accept": "application/json, text/event-stream"}
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    began = http.post("/mcp", json=hello, headers=headers)
    headers["Mcp-Session-Id"] = began.headers["mcp-session-id"]
    with server.client(other_key) as stranger:
        assert (
            stranger.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "ping"}, headers=headers).status_code
            == 404
        )
    assert http.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "ping"}, headers=headers).status_code == 200
    assert http.delete("/mcp", headers=headers).status_code == 200


def test_a_key_leaves_only_so_many_conversations_open(server: Server, http: httpx2.Client, other_key: str) -> None:
    """The one that was not used for longest ends, of the same key, and none that a request uses."""
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }

    def begun(client: httpx2.Client) -> dict[str, str]:
        headers = {"Accept": "application/json, text/event-stream"}
        answer = client.post("/mcp", json=hello, headers=headers).raise_for_status()
        return {**headers, "Mcp-Session-Id": answer.headers["mcp-session-id"]}

    def is_known(client: httpx2.Client, conversation: dict[str, str]) -> bool:
        return client.post("/mcp", json=ping, headers=conversation).status_code == 200

    with server.client(other_key) as busy:
        neighbours, unused, used, streaming = begun(http), begun(busy), begun(busy), begun(busy)
        with busy.stream("GET", "/mcp", headers=streaming):
            for _ in range(MOST - 1):
                begun(busy)
            assert is_known(busy, used)
            last = begun(busy)
            eventually(lambda: not is_known(busy, unused))
            for _ in range(MOST - 10):  # a few less, since the server may notice the ends of answers late
                begun(busy)
            assert is_known(busy, used)
            assert is_known(busy, last)
            assert is_known(busy, streaming)
        assert is_known(http, neighbours)
    assert http.delete("/mcp", headers=neighbours).status_code == 200


def test_without_a_key_there_is_nothing(server: Server) -> None:
    with server.client("cloche_wrong") as stranger:
        assert stranger.post("/mcp", json={}).status_code == 401


async def test_limits_of_a_key_are_told_to_the_model(server: Server, http: httpx2.Client) -> None:
    limits = {"sandboxes": 1}
    made = http.post("/v1/keys", json={"owner": "limited", "name": "t", "scopes": ["run"], "limits": limits}).json()
    key = next(value for value in made.values() if str(value).startswith("cloche_"))
    async with client_of(server, key) as client:
        await run(client, "1")
        refused = await client.call_tool("session_create", {})
        assert refused.is_error
        assert "sandboxes" in text(refused)


# Protocol 2026-07-28: every request stands alone


async def test_without_a_connection_a_session_goes_on_by_its_id(server: Server) -> None:
    async with client_of(server, mode="auto") as client:
        assert client.protocol_version == "2026-07-28"
        first = await run(client, "k = 3")
        session = told(first)["session"]
        assert f'session="{session}"' in announced(first)
        assert told(first)["new_session"]["session"] == session
        assert told(await run(client, "k", session=session))["results"] == ["3"]
        assert told(await run(client, "1"))["session"] != session
        unclear = await client.call_tool("files_list", {})
        assert unclear.is_error
        assert "Pass `session`" in text(unclear)
        await client.call_tool("session_end", {"session": session})


async def test_sessions_that_nobody_goes_on_with_do_not_pile_up(
    server: Server, http: httpx2.Client, other_key: str
) -> None:
    async with client_of(server, other_key, mode="auto") as client:
        made = [told(await run(client, "1"))["session"] for _ in range(6)]
        alive = {one["session"] for one in told(await client.call_tool("session_list", {}))["sessions"]}
        assert set(made) & alive == set(made[-4:])
        for session in made[-4:]:
            await client.call_tool("session_end", {"session": session})


# The end


async def test_a_server_that_is_stopped_answers_what_it_was_asked(serve: Callable[..., Server]) -> None:
    running = serve()
    began = asyncio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        began.set()

    async with client_of(running) as client:
        await client.list_tools()  # it checks the answer by what this tells, and would ask when it is too late
        code = {"code": "print('on', flush=True)\nimport time\ntime.sleep(1)\n'finished'"}
        call = asyncio.create_task(client.call_tool("code_execution", code, progress_callback=note))
        await asyncio.wait_for(began.wait(), 30)
        stopping = asyncio.create_task(asyncio.to_thread(running.stop))
        assert told(await call)["results"] == ["'finished'"]
        begin = monotonic()
        assert await stopping == 0
        assert monotonic() - begin < 4  # though the client still listens
