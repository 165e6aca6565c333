"""The secrets of one sandbox: which host may get which, and the authority that its programs trust."""

from __future__ import annotations

import warnings
from base64 import b64encode
from collections.abc import Mapping

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.x509 import load_pem_x509_certificates

from cloche.egress.authority import Authority
from cloche.egress.secrets import Exchange, Held
from cloche.model.network import Secret
from cloche.model.network_rules import Rule, rule

JAVA_PASSWORD = "changeit"  # as in every Java: the file has no keys, and so no secrets


class HostSecrets:
    """The secrets of one sandbox."""

    def __init__(self) -> None:
        self.authority = Authority()
        self._held: list[tuple[Held, tuple[Rule, ...]]] = []

    def replace(self, secrets: Mapping[str, Secret], placeholders: Mapping[str, str]) -> None:
        """Put other secrets in place; connections that are open keep theirs."""
        self._held = [
            (Held(name, secret.value, placeholders[name]), tuple(map(rule, secret.hosts)))
            for name, secret in secrets.items()
        ]

    def exchange(self, host: str, port: int) -> Exchange | None:
        """The exchange of the secrets for this host; None if there are none."""
        found = [
            held for held, rules in self._held if any(each.covers_name(host) and port in each.ports() for each in rules)
        ]
        return Exchange(found) if found else None

    def trust(self, bundle: bytes) -> dict[str, str]:
        """The host's certificates with the authority's own: as PEM, and as a file for Java."""
        pem = bundle.rstrip() + b"\n" + self.authority.pem().encode()
        with warnings.catch_warnings(action="ignore"):  # about certificates of the host's
            trusted = load_pem_x509_certificates(pem)
        certificates = [PKCS12Certificate(each, b"certificate %d" % number) for number, each in enumerate(trusted)]
        java = serialize_java_truststore(certificates, BestAvailableEncryption(JAVA_PASSWORD.encode()))
        return {"pem": pem.decode("utf-8", "replace"), "java": b64encode(java).decode()}
