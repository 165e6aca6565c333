"""Downloads files of a package index; a program of the standard library alone, which the broker runs in a sandbox.

Standard input is JSON: {"files": [{"url", "name", "size"}], "folder", "most_bytes", "authorization": {host: header}}.
Standard output is one line of JSON: {"sizes": {name: bytes}}, {"too_large": bytes} or {"failed": sentence}.
As soon as the sizes that are known add up to too many bytes, no more is downloaded, and the sizes of the other files
are asked for.
"""

import http.client
import json
import ssl
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urljoin, urlsplit

AT_ONCE = 8
PATIENCE_S = 30.0
TRIES = 3
REDIRECTS = 5


class TooLargeError(Exception):
    """The files have more bytes than the broker allows."""


class Fetching:
    """One order; each thread keeps its connections open."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.files: list[dict[str, Any]] = order["files"]
        self.folder, self.most = order["folder"], order["most_bytes"]
        self.authorization: dict[str, str] = order["authorization"]
        self.sizes = {each["name"]: int(each.get("size") or 0) for each in self.files}
        self.local = threading.local()
        self.tls = ssl.create_default_context()

    def all(self) -> dict[str, Any]:
        """Download everything; return the answer."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for _ in pool.map(self.download, self.files):
                    pass
            except TooLargeError:
                unknown = [each for each in self.files if not self.sizes[each["name"]]]
                with ThreadPoolExecutor(AT_ONCE) as others:
                    list(others.map(self.measure, unknown))
                return {"too_large": sum(self.sizes.values())}
        return {"sizes": self.sizes}

    def measure(self, file: dict[str, Any]) -> None:
        """Ask for the size of a file."""
        answer = self.ask("HEAD", file["url"])
        answer.read()
        self.sizes[file["name"]] = int(answer.getheader("Content-Length") or 0)

    def download(self, file: dict[str, Any]) -> None:
        """Download one file; a connection that breaks is tried again."""
        for left in reversed(range(TRIES)):
            try:
                return self.download_once(file)
            except (OSError, http.client.HTTPException):
                self.forget_connections()
                if not left:
                    raise

    def download_once(self, file: dict[str, Any]) -> None:
        """Download one file."""
        self.check()
        answer = self.ask("GET", file["url"])
        length = int(answer.getheader("Content-Length") or 0)
        self.sizes[file["name"]] = length
        if sum(self.sizes.values()) > self.most:
            self.forget_connections()  # with the rest of this file
            raise TooLargeError
        count = 0
        with open(f"{self.folder}/{file['name']}", "wb") as target:
            while data := answer.read(1 << 20):
                count += len(data)
                self.sizes[file["name"]] = max(length, count)
                self.check()
                target.write(data)
        if length and count != length:
            raise OSError(f"a file ended after {count} of {length} bytes")

    def check(self) -> None:
        """Raise when the bytes that are known are too many."""
        if sum(list(self.sizes.values())) > self.most:
            self.forget_connections()
            raise TooLargeError

    def ask(self, method: str, url: str) -> http.client.HTTPResponse:
        """Send a request, follow redirects, and return the answer."""
        for _ in range(REDIRECTS):
            parts = urlsplit(url)
            connection = self.connection(parts.scheme, parts.netloc.rpartition("@")[2])
            header = self.authorization.get(parts.netloc.rpartition("@")[2])
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request(method, path, headers={"Authorization": header} if header else {})
            answer = connection.getresponse()
            if answer.status in (301, 302, 303, 307, 308):
                answer.read()
                url = urljoin(url, answer.getheader("Location") or "")
                continue
            if answer.status >= 500:
                raise OSError(f"the server answered {answer.status} {answer.reason}")
            if answer.status >= 400:
                raise ValueError(f"the server answered {answer.status} {answer.reason}")
            return answer
        raise ValueError("the server redirects for ever")

    def connection(self, scheme: str, host: str) -> http.client.HTTPConnection:
        """The open connection of this thread to a host."""
        known: dict[tuple[str, str], http.client.HTTPConnection] = self.local.__dict__.setdefault("known", {})
        if (scheme, host) not in known:
            if scheme == "https":
                known[scheme, host] = http.client.HTTPSConnection(host, timeout=PATIENCE_S, context=self.tls)
            else:
                known[scheme, host] = http.client.HTTPConnection(host, timeout=PATIENCE_S)
        return known[scheme, host]

    def forget_connections(self) -> None:
        """Close this thread's connections."""
        known: dict[tuple[str, str], http.client.HTTPConnection] = self.local.__dict__.pop("known", {})
        for each in known.values():
            each.close()


if __name__ == "__main__":
    try:
        print(json.dumps(Fetching(json.load(sys.stdin)).all()))
    except (OSError, ValueError, http.client.HTTPException) as problem:
        print(json.dumps({"failed": f"{str(problem) or type(problem).__name__}"[:500]}))
