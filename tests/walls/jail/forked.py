"""Runs a probe in a child process, under a restriction that cannot be lifted again."""

from __future__ import annotations

import errno
import os
import signal
import traceback
from collections.abc import Callable

from cloche.walls.jail import linux


def in_child(probe: Callable[[], object], restrict: Callable[[], object] | None = None) -> str:
    """Return, as text, what `probe` returns in a child after `restrict`; for an OSError, the name of its number."""
    receive, send = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            signal.alarm(30)
            linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
            if restrict is not None:
                restrict()
            answer = repr(probe())
        except OSError as error:
            answer = errno.errorcode.get(error.errno or 0) or traceback.format_exc()
        except BaseException:
            answer = traceback.format_exc()
        os.write(send, answer.encode())
        os._exit(0)
    os.close(send)
    with open(receive) as answers:
        answer = answers.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return answer if status == 0 else f"ended with {status}"
