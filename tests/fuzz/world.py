"""Objects for requests to name: one of each kind, made on demand, and made again after a request has ended it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2


class World:
    """Knows the ids of existing objects by the names that the description of the interface has for them."""

    def __init__(self, http: httpx2.Client) -> None:
        self._http = http
        self._ids: dict[str, str] = {}
        self._makers: dict[str, Callable[[], str]] = {
            "sandbox_id": self._sandbox,
            "run_id": self._run,
            "call": lambda: "1",
            "path": self._file,
            "command": lambda: self._inside("commands", {"command": "cat"}),
            "context": lambda: self._inside("contexts", {}),
            "checkpoint": lambda: self._inside("checkpoints", {}),
            "attempt": lambda: self._inside("attempts", {"code": "y = 2"}),
            "key_id": lambda: self._made("/v1/keys", {"owner": "ada", "name": "fuzz"}),
            "share_id": self._share,
            "token": self._token,
            "workspace": self._workspace,
            "name": lambda: "python-cli",
            "port": lambda: "8000",
        }

    @property
    def sandbox(self) -> str:
        return f"/v1/sandboxes/{self.id('sandbox_id')}"

    def knows(self, name: str) -> bool:
        """Return whether there are objects of this kind."""
        return name in self._makers

    def id(self, name: str) -> str:
        """Return the id of an object that exists."""
        if name not in self._ids:
            self._ids[name] = self._makers[name]()
        return self._ids[name]

    def forget(self, *names: str) -> None:
        """Make new objects of these kinds next time; those in a sandbox end with it."""
        if "sandbox_id" in names:
            self.close()
            names = (*names, "run_id", "path", "command", "context", "checkpoint", "attempt")
        if "share_id" in names:
            names = (*names, "token")
        for name in names:
            self._ids.pop(name, None)

    def close(self) -> None:
        """End the sandbox."""
        if "sandbox_id" in self._ids:
            self._http.delete(f"/v1/sandboxes/{self._ids['sandbox_id']}")

    def _inside(self, kind: str, payload: dict[str, Any]) -> str:
        """Make an object in the sandbox, or in a new one if the sandbox is full or has ended."""
        if self._http.post(f"{self.sandbox}/contexts", json={}).status_code != 201:
            self.forget("sandbox_id")
        return self._made(f"{self.sandbox}/{kind}", payload)

    def _made(self, path: str, payload: dict[str, Any]) -> str:
        answer = self._http.post(path, json=payload)
        assert answer.status_code == 201, f"{path}: {answer.text}"
        return str(answer.json()["id"])

    def _sandbox(self) -> str:
        made = self._made("/v1/sandboxes", {"undo": True})
        self._http.post(f"/v1/sandboxes/{made}/run", json={"code": "x = 1"}).raise_for_status()  # something to undo
        return made

    def _run(self) -> str:
        answer = self._http.post("/v1/run", json={"code": "x = 1"})
        return str(answer.raise_for_status().json()["run_id"])

    def _file(self) -> str:
        if self._http.put(f"{self.sandbox}/files/there.txt", content=b"hello").status_code == 404:
            self.forget("sandbox_id")
            self._http.put(f"{self.sandbox}/files/there.txt", content=b"hello").raise_for_status()
        return "there.txt"

    def _share(self) -> str:
        document = {"title": "fuzz", "files": [{"path": "main.py", "text": "print(1)"}], "runs": []}
        answer = self._http.post("/v1/shares", json=document)
        assert answer.status_code == 201, answer.text
        self._ids["token"] = str(answer.json()["path"]).rpartition("/")[2]
        return str(answer.json()["id"])

    def _token(self) -> str:
        self._ids.pop("share_id", None)
        self.id("share_id")
        return self._ids["token"]

    def _workspace(self) -> str:
        made = self._http.post("/v1/sandboxes", json={"persistent": True}).raise_for_status().json()
        self._http.delete(f"/v1/sandboxes/{made['id']}")
        return str(made["workspace"])
