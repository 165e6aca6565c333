"""The audit of an environment: what the local catalogue knows about its packages, without any request to a network."""

from __future__ import annotations

from cloche.model.plain import Plain
from cloche.packages.bill_of_materials import locks
from cloche.packages.catalogue import audit as audit_of_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.model.environments import Environment
    from cloche.packages.catalogue import Catalogue


class AuditFinding(Plain):
    """A package of an environment that the catalogue has an entry about."""

    name: str
    version: str
    language: str
    id: str  # of the entry
    summary: str
    malicious: bool


class EnvironmentAudit(Plain):
    """The outcome of an audit."""

    name: str
    packages: int  # that were looked up
    findings: tuple[AuditFinding, ...]
    malicious_known: int  # entries of the catalogue
    others_known: int
    catalogue_age_days: float | None  # None: only what comes with Cloche is there


def audit(environment: Environment, catalogue: Catalogue, now: float) -> EnvironmentAudit:
    """Compare an environment with the catalogue."""
    found, state = locks(environment), catalogue.state()
    findings = [
        AuditFinding(
            each.package.name,
            each.package.version,
            each.package.ecosystem,
            each.advisory.id,
            each.advisory.summary,
            each.advisory.is_malicious,
        )
        for lock in found
        for each in audit_of_lock(lock, catalogue)
    ]
    return EnvironmentAudit(
        name=environment.name,
        packages=sum(len(lock.packages) for lock in found),
        findings=tuple(sorted(findings, key=lambda each: (not each.malicious, each.name, each.id))),
        malicious_known=state.malicious,
        others_known=state.others,
        catalogue_age_days=state.age_days(now),
    )
