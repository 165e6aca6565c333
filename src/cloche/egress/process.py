"""The egress process itself: takes sandboxes from the engine, and the engine's requests about each of them.

The engine sends a channel for each sandbox on the control socket.  A request on a channel is a short text, JSON, with
descriptors:

    {"policy": true}  the first descriptor is a memory file with the policy, which may contain secrets,
                      and the others are new listening sockets, described in "listeners" as [port, …].  With
                      "trust", the second one is a memory file, into which the certificates are written that programs
                      shall trust: {"pem": TEXT, "java": BASE64}
    {"log": NUMBER, "after": TIME}  the answer has attempts after that number which began after that time

Each request has one answer, in order.  It says what the sandbox has used, {"used": BYTES, "count": ATTEMPTS}.  The
engine tells that to the next process if this one is killed: nobody gets a new quota by that.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
from typing import Any

from cloche.egress.decision import Policy
from cloche.egress.room import ROOM
from cloche.egress.sandbox import SandboxEgress
from cloche.model.network import Network

CONTROL = 3
MAX_MESSAGE = 64 << 10
_MAX_DESCRIPTORS = 250
_MAX_POLICY = 4 << 20
_PAGE = 100  # attempts in one answer
_MAX_PAGE = 64 << 10  # bytes of them: the kernel takes no message that is larger than a socket's buffer


async def serve(control: socket.socket) -> None:
    """Serve until the engine goes away."""
    loop = asyncio.get_running_loop()
    control.setblocking(False)
    while True:
        message, descriptors = await _receive(loop, control)
        if not message:
            return
        for descriptor in descriptors:
            channel = socket.socket(fileno=descriptor)
            _running.add(task := loop.create_task(_serve_sandbox(channel)))
            task.add_done_callback(_running.discard)


_running: set[asyncio.Task[None]] = set()


async def _serve_sandbox(channel: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    channel.setblocking(False)
    sandbox = SandboxEgress()
    try:
        while True:
            message, descriptors = await _receive(loop, channel)
            if not message:
                return
            request: dict[str, Any] = json.loads(message)
            if "policy" in request:
                answer = _put_in_force(sandbox, request, descriptors)
            else:
                answer = {"attempts": _page(sandbox.attempts.since(request["log"], request["after"], _PAGE))}
            answer |= {"used": sandbox.meter.used, "count": sandbox.attempts.count}
            await loop.sock_sendall(channel, json.dumps(answer).encode())
    except OSError:
        pass  # the engine has gone away
    finally:
        sandbox.close()
        channel.close()


def _page(attempts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many of these as one message can have: the names in them are as long as programs make them."""
    size = 0
    for number, each in enumerate(attempts):
        size += len(json.dumps(each))
        if number and size > _MAX_PAGE:
            return attempts[:number]
    return attempts


def _put_in_force(sandbox: SandboxEgress, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    memory, *sockets = descriptors
    trust = sockets.pop(0) if request.get("trust") else -1
    try:
        return _replace(sandbox, json.loads(os.pread(memory, _MAX_POLICY, 0)), request["listeners"], sockets, trust)
    finally:
        os.close(memory)
        if trust >= 0:
            os.close(trust)


def _replace(
    sandbox: SandboxEgress, told: dict[str, Any], ports: list[int], sockets: list[int], trust: int
) -> dict[str, Any]:
    opened: dict[int, list[socket.socket]] = {}
    for port, descriptor in zip(ports, sockets, strict=True):
        opened.setdefault(port, []).append(socket.socket(fileno=descriptor))
    policy = Policy(
        Network(**told["network"]),
        private=told["private"],
        hosts=told["hosts"],
        indexes=[(host, port) for host, port in told["indexes"]],
        ours=told["ours"],
    )
    sandbox.goes_on(told["used"], told["count"])
    sandbox.replace(policy, opened, frozenset(told["ports"]), told["placeholders"])
    if trust >= 0 and sandbox.secrets is not None:
        os.write(trust, json.dumps(sandbox.secrets.trust(told["bundle"].encode())).encode())
    return {"done": True}


async def _receive(loop: asyncio.AbstractEventLoop, source: socket.socket) -> tuple[bytes, list[int]]:
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(source, MAX_MESSAGE, _MAX_DESCRIPTORS)
        except BlockingIOError:
            await _readable(loop, source)
            continue
        except OSError:
            return b"", []
        return message, descriptors


async def _readable(loop: asyncio.AbstractEventLoop, source: socket.socket) -> None:
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(source, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(source)


def main() -> int:
    """Be the egress process; the engine's socket is descriptor 3."""
    os.set_inheritable(CONTROL, False)
    # No core file: it would have secrets.  With 1 instead of 0, the kernel starts no program for it either.
    size = 1 if resource.getrlimit(resource.RLIMIT_CORE)[1] else 0  # an ordinary user cannot raise it
    resource.setrlimit(resource.RLIMIT_CORE, (size, size))
    ROOM.make()
    with socket.socket(fileno=CONTROL) as control:
        asyncio.run(serve(control))
    return 0
