"""Completes the OpenAPI description: who may call each operation, how it can be refused, and its summary.

All of it follows from what a route declares anyway, so that no route can be described differently from how it behaves.
The result is the same on every server of a version: nothing in it depends on the operator's settings.
"""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI

from cloche.doors.gate.cookies import COOKIE
from cloche.doors.routing.access import Access

Described = dict[str, Any]

# The subjects, in the order in which a reader meets them.
SUBJECTS = {
    "programs": "Run a program in a sandbox of its own, which ends with it.",
    "runs": "Look at runs of programs and sessions, follow their events, send them input and stop them.",
    "sandboxes": "Create sandboxes, which live on between requests, and end them.",
    "sessions": "Run code in a sandbox whose variables stay, go back, and try code before you keep it.",
    "contexts": "Places for code in one sandbox, each with variables of its own.",
    "checkpoints": "Save the variables and files of a session, and return to them.",
    "attempts": "Run code in a branch of a session, and decide afterwards whether to keep its effects.",
    "files": "Read, write, list and watch the files of a sandbox.",
    "tables": "Read rows of tables that a session displayed, and of tables in files.",
    "commands": "Run shell commands and background programs in a sandbox.",
    "network": "Decide what a sandbox may reach, and see what it tried to reach.",
    "environments": "Build, list and remove environments: packages and files from which sandboxes start.",
    "packages": "Install, list, remove and find the packages that code in a sandbox can import.",
    "ports": "Reach servers that programs start in a sandbox.",
    "workspaces": "The files of persistent sandboxes, which remain when the sandbox ends.",
    "shares": "Links that show code and its output to people without a key.",
    "keys": "Create, list and revoke API keys.",
    "usage": "What keys have used, and what their limits leave.",
    "templates": "Small projects to start from.",
    "server": "The server itself: its health, version, languages, prices, metrics and audit log.",
    "containers": "The same sandboxes under the names that container tools use.",
}

_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, as `cloche key` prints it: `Authorization: Bearer KEY`.",
    },
    "header": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "The same key, for clients that cannot set `Authorization`.",
    },
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "The session of a signed-in browser; `/?key=KEY` begins one.",
    },
}
_REFUSALS = {
    "Invalid": "A value in the request is not valid; `error.message` names it.",
    "Unauthorized": "The request has no API key, or one that this server does not know.",
    "Forbidden": "The key lacks the scope that the operation needs, or a page of another site sent the request.",
    "Missing": "There is no such thing, or it belongs to somebody else.",
    "Ended": "It existed once and has ended, or the server no longer keeps it.",
    "Conflict": "The request is not possible in the current state.",
    "TooLarge": "The body is larger than the operation accepts.",
    "WrongType": "The body has a type or an encoding that the operation does not accept.",
    "Malformed": "The request does not have the form that is described here; `error.details` lists the problems.",
    "Limited": "A limit of the key is used up; `Retry-After` says when to try again.",
    "Busy": "The server has no room for the request now; `Retry-After` says when to try again.",
}
_SENTENCE = re.compile(r"(.+?)\.(?:\s+|$)(.*)", re.DOTALL)


class DescribedApplication(FastAPI):
    """An application whose description names the ways to sign in, and every refusal."""

    def openapi(self) -> Described:
        if self.openapi_schema is None:
            made = super().openapi()
            parts = made["components"]
            parts["securitySchemes"] = _SCHEMES
            answer = {"application/json": {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}}
            parts["responses"] = {
                name: {"description": told, "content": answer} for name, told in sorted(_REFUSALS.items())
            }
            made["tags"] = [{"name": name, "description": told} for name, told in SUBJECTS.items()]
        return self.openapi_schema or {}


def of_operation(method: str, path: str, access: Access, about: str) -> Described:
    """The summary and description of an operation, from its docstring."""
    summary, more = split(about)
    needs = f"Needs a key with the scope `{access.scope}`." if needs_key(access) else "Needs no key."
    return {"summary": summary, "description": f"{more} {needs}".strip()} | {
        "openapi_extra": {
            "security": [{name: [access.scope]} for name in _SCHEMES] if needs_key(access) else [],
            "responses": {
                status: {"$ref": f"#/components/responses/{name}"} for status, name in _refusals(method, path, access)
            },
        }
    }


def needs_key(access: Access) -> bool:
    """Whether a request is refused without a key."""
    return access.scope in ("read", "run", "admin")


def split(about: str) -> tuple[str, str]:
    """The first sentence of a docstring, without its full stop, and the rest."""
    words = " ".join(about.split())
    found = _SENTENCE.fullmatch(words)
    return (found[1], found[2]) if found else (words, "")


def _refusals(method: str, path: str, access: Access) -> list[tuple[str, str]]:
    has_body, has_names = access.body != "none", "{" in path
    inside = "{sandbox_id}" in path or "{run_id}" in path
    possible = (
        ("400", "Invalid", has_body or has_names),
        ("401", "Unauthorized", needs_key(access)),
        ("403", "Forbidden", access.scope != "public"),
        ("404", "Missing", has_names),
        ("409", "Conflict", inside and method != "GET"),
        ("410", "Ended", inside),
        ("413", "TooLarge", has_body),
        ("415", "WrongType", has_body),
        ("422", "Malformed", has_body or has_names or method == "GET"),
        ("429", "Limited", needs_key(access)),
        ("503", "Busy", access.scope != "public" or path.endswith("/ready")),
    )
    return [(status, name) for status, name, applies in possible if applies]
