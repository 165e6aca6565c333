"""Records to put into a store."""

from __future__ import annotations

from cloche.model.records import AuditRecord, RunRecord, SandboxRecord


def run(name: str, state: str = "running", **others: object) -> RunRecord:
    values: dict[str, object] = {
        "id": name,
        "owner": "ada",
        "key": "k1",
        "sandbox": None,
        "context": "",
        "language": "python",
        "code_sha256": "00" * 32,
        "state": state,
        "started": 1000.0,
        "limits": {"memory": 1 << 30},
    }
    return RunRecord(**{**values, **others})  # type: ignore[arg-type]


def sandbox(name: str, state: str = "alive", **others: object) -> SandboxRecord:
    values: dict[str, object] = {
        "id": name,
        "owner": "ada",
        "key": "k1",
        "state": state,
        "created": 1000.0,
        "wall": "jail",
        "limits": {},
        "metadata": {},
        "expires": None,
        "persistent": False,
        "workspace": None,
    }
    return SandboxRecord(**{**values, **others})  # type: ignore[arg-type]


def audit(name: str, **others: object) -> AuditRecord:
    values: dict[str, object] = {
        "id": name,
        "time": 1000.0,
        "owner": "ada",
        "key": "k1",
        "action": "run",
        "target": "r1",
        "details": {},
    }
    return AuditRecord(**{**values, **others})  # type: ignore[arg-type]
