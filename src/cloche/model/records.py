"""The records that the store keeps, as plain data.  Times are seconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key.  Only the digest of its secret is stored."""

    id: str
    owner: str
    name: str
    digest: str  # sha256 of the secret, in hex
    scopes: tuple[str, ...]
    policy: dict[str, Any]
    created: float
    revoked: float | None = None
    used: float | None = None  # when it was used last, as far as that was recorded


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser that is signed in.  Only the digest of its token is stored."""

    id: str  # sha256 of the token, in hex
    key: str  # the id of the key that the token stands for
    until: float


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """A secret that the server keeps for an owner.  Its value is encrypted, and no door returns it."""

    id: str
    owner: str
    name: str
    encrypted: str  # the value, in base64
    version: int  # counts the values from 1
    metadata: dict[str, str]
    created: float
    updated: float


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """A sandbox; its state is "alive", "ended", or "lost" if its server crashed."""

    id: str
    owner: str
    key: str
    state: str
    created: float
    wall: str
    limits: dict[str, Any]
    metadata: dict[str, str]
    expires: float | None
    persistent: bool
    workspace: str | None
    ended: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run; its state is "running", "done", "failed" or "interrupted"."""

    id: str
    owner: str
    key: str
    sandbox: str | None
    context: str
    language: str
    code_sha256: str
    state: str
    started: float
    limits: dict[str, Any]
    ended: float | None = None
    exit_code: int | None = None
    error_kind: str | None = None
    duration: float = 0
    cpu_time: float = 0
    memory_peak: int = 0
    bytes_moved: int = 0
    result: str | None = None  # JSON; lists of runs leave it out


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Who did what to what, and when."""

    id: str
    time: float
    owner: str
    key: str
    action: str  # "run", "sandbox.create", "key.create"
    target: str
    details: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChargeRecord:
    """The CPU time that sandboxes cost a key in one hour, so far: a later record with the same id replaces it."""

    id: str
    owner: str
    key: str
    hour: int  # since the epoch
    cpu_time: float


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """The sum of what several runs, and sandboxes, used."""

    runs: int = 0
    cpu_time: float = 0
    bytes_moved: int = 0


Fact = RunRecord | SandboxRecord | ChargeRecord | AuditRecord


def audit_of(record: RunRecord) -> AuditRecord:
    """Return the audit entry of a run, with its outcome.  Its id follows from the run's, so there is one for each."""
    details = {
        "sandbox": record.sandbox,
        "kind": _kind(record),
        "language": record.language,
        "code_sha256": record.code_sha256,
        "limits": record.limits,
        "outcome": record.state,
        "ended": record.ended,
        "error": record.error_kind,
        "exit_code": record.exit_code,
    }
    name = f"audit_{record.id.removeprefix('run_')}"
    return AuditRecord(name, record.started, record.owner, record.key, "run", record.id, details)


def _kind(record: RunRecord) -> str:
    if record.language == "command":
        return "command"
    return "cell" if record.context else "program"
