"""Python for sandboxes: connections of the plainest kind, so that the tests see each refusal as it is."""

from __future__ import annotations

from ast import literal_eval
from typing import Any

import cloche

FUNCTIONS = '''
import socket, threading, time

def reach(host, port=80, path="/"):
    """The status of an answer over HTTP, or the name of the exception."""
    try:
        with socket.create_connection((host, port), 10) as found:
            request = f"GET {path} HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n"
            found.sendall(request.encode())
            with found.makefile("rb") as answer:
                return int(answer.readline().split()[1])
    except OSError as problem:
        return type(problem).__name__
    except IndexError:
        return "ended"

def hold(host, port):
    """A connection to a server that speaks first; it has spoken."""
    found = socket.create_connection((host, port), 10)
    assert found.recv(100).startswith(b"220"), "no greeting"
    return found

def repeated(found, text=b"again\\n"):
    """Whether the server at the other end still repeats what it hears."""
    found.sendall(text)
    return found.recv(100) == text

class Watch(threading.Thread):
    """Notes when a connection ends."""

    def __init__(self, found):
        super().__init__(daemon=True)
        self.found, self.ended = found, None
        self.start()

    def run(self):
        try:
            while self.found.recv(4096):
                pass
        except OSError:
            pass
        self.ended = time.monotonic()
'''


def prepare(box: cloche.Sandbox) -> cloche.Sandbox:
    """Define the functions in a sandbox's session."""
    assert box.run(FUNCTIONS).error is None
    return box


def told(box: cloche.Sandbox, expression: str, before: str = "", context: Any = None) -> Any:
    """The value of an expression in the sandbox's session, after some statements."""
    result = box.run(f"{before}\nprint(repr(({expression})))", context=context)
    assert result.error is None, f"{result.error}\n{result.error.traceback}\n{result.stderr}"
    return literal_eval(result.stdout)
