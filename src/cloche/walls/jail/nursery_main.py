"""The nursery's program, from the exec in launch.py to the fork that becomes somebody's program."""

from __future__ import annotations

import gc
import marshal
import os
import resource
import sys

from cloche.agent import own_packages
from cloche.agent.python import BecomeProgram, block_harmful_imports, note_state
from cloche.walls import sockets
from cloche.walls.jail import library_imports, linux, root
from cloche.walls.jail.newborn import Newborn
from cloche.walls.jail.nursery import Nursery
from cloche.walls.jail.warm_up import COMMON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_DESCRIPTORS = 8192  # that a process in a sandbox can have


def main(source: int) -> None:
    """Be a nursery.  It is inside the sandboxes' root; `source` is a socket from which the configuration comes."""
    configuration = _receive_configuration(sockets.adopt(source))
    sys.argv[:] = ["python3"]
    gc.disable()
    engines, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Descriptors that are sent and not received yet count per user of the host, against the limit of the next sender.
    # So where sandboxes share the engine's user, their limit is lower than the engine's, which must still send claims.
    shared = not configuration["privileged"] and engines != resource.RLIM_INFINITY
    configuration["descriptors"] = min(_DESCRIPTORS, engines // 2) if shared else _DESCRIPTORS
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each sandbox takes a dozen: 1024 are not enough
    linux.last_capability()  # read once, for every sandbox
    if configuration["rehearse"]:  # some libraries want to write while they are imported
        library_imports.mount_scratch()
    if configuration["preload"] == "common":
        configuration["preload"] = list(COMMON)
    # Each of these ends by raising the next, so that a program runs at the bottom of the stack and not on top of ours.
    newborn: Newborn | None = None
    program: BecomeProgram | None = None
    try:
        block_harmful_imports()
        own_packages.leave_out()
        nursery = Nursery(configuration)  # kept in a variable, so that a fork does not spend time taking it apart
        linux.umount(root.LIBRARY + "/cloche")  # all our modules are imported; no program inside may find them
        sys.path.remove(root.LIBRARY)
        note_state()
        nursery.serve()
    except Newborn as child:
        newborn = child
    if newborn is not None:
        try:
            newborn.live()
        except BecomeProgram as child_:
            program = child_
    if program is not None:
        program.become()
    os._exit(0)


def _receive_configuration(source: sockets.Socket) -> dict[str, Any]:
    message, descriptors = sockets.receive(source, 64 << 10, 16)
    source.close()
    if not message:
        os._exit(1)  # the keeper has failed, and has told the engine why
    configuration: dict[str, Any] = marshal.loads(message)
    configuration["host_mounts"], configuration["host_proc"], *places = descriptors
    configuration["environment"] = root.environment(configuration.get("path", ()))
    for place, fd in zip(configuration.get("cgroups", {"places": ()})["places"], places, strict=True):
        place[0] = fd  # the same directory under another number
    return configuration
