"""What the store keeps, as plain data; times are seconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key, of which nothing but the digest of its secret is known."""

    id: str
    owner: str
    name: str
    digest: str  # sha256 of the secret, in hex
    scopes: tuple[str, ...]
    policy: dict[str, Any]
    created: float
    revoked: float | None = None


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """A sandbox that is "alive", has "ended", or was "lost" with the server that kept it."""

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
    """A run that is "running", or its outcome: "done", "failed" or "interrupted"."""

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
class UsageTotal:
    """What runs have used."""

    runs: int = 0
    cpu_time: float = 0
    bytes_moved: int = 0


Fact = RunRecord | SandboxRecord | AuditRecord


def audit_of(record: RunRecord) -> AuditRecord:
    """A run that is over, as the audit log has it: once, however often it is told."""
    details = {
        "sandbox": record.sandbox,
        "language": record.language,
        "code_sha256": record.code_sha256,
        "limits": record.limits,
        "outcome": record.state,
        "error": record.error_kind,
        "exit_code": record.exit_code,
    }
    assert record.ended is not None
    name = f"audit_{record.id.removeprefix('run_')}"
    return AuditRecord(name, record.ended, record.owner, record.key, "run", record.id, details)
