"""The nursery's record of a sandbox that ends while it is built."""

from __future__ import annotations

from contextlib import closing

import pytest

from cloche.walls import sockets
from cloche.walls.jail.sandbox_process import SandboxProcess


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([b"12 1000", b"!OSError: not mounted"], "OSError: not mounted"),
        ([b"12 1000"], ""),
    ],
)
@pytest.mark.parametrize("has_ended", [True, False])
def test_the_reason_of_a_failure_is_read_after_the_end(messages, reason, has_ended):
    ours, theirs = sockets.pair()
    with closing(ours), closing(theirs):
        for message in messages:
            theirs.send(message)
        if has_ended:
            theirs.close()
        sandbox = SandboxProcess(1, ours, None, "")

        assert sandbox.note_unread_failure() == bool(reason)
        assert sandbox.reason == reason
