"""What one sandbox puts into requests: which host gets which secrets and headers, and the authority for that."""

from __future__ import annotations

import asyncio
import warnings
from base64 import b64encode
from collections.abc import Mapping

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.x509 import load_pem_x509_certificates

from cloche.egress.authority import Authority
from cloche.egress.secrets import Exchange, Held
from cloche.model.network import Network
from cloche.model.network_headers import filled
from cloche.model.network_rules import Rule, rule

JAVA_PASSWORD = "changeit"  # as in every Java: the file has no keys, and so no secrets


class HostSecrets:
    """The secrets of one sandbox."""

    def __init__(self) -> None:
        self.authority = Authority()
        self._held: list[tuple[Held, tuple[Rule, ...]]] = []
        self._headers: list[tuple[Rule, Mapping[str, str]]] = []
        self._turn = asyncio.Lock()

    def replace(self, network: Network, placeholders: Mapping[str, str]) -> None:
        """Put the secrets and headers of another policy in place; those that stay as they are stay the same objects."""
        before = {each.told: each for each, _ in self._held}
        self._held = []
        for name, secret in network.secrets.items():
            told = (name, secret.value, placeholders[name], secret.variable)
            self._held.append((before.get(told) or Held(*told), tuple(map(rule, secret.hosts))))
        self._headers = [(rule(host), headers) for host, headers in network.headers.items()]

    def exchange(self, host: str, port: int) -> Exchange | None:
        """The exchange of the secrets and headers for this host; None if there are none."""
        found = [held for held, rules in self._held if any(_covers(each, host, port) for each in rules)]
        values = {held.name: held.value.decode() for held in found}
        headers: dict[str, tuple[bytes, bytes]] = {}
        for each, texts in self._headers:
            if _covers(each, host, port):
                for name, text in texts.items():
                    headers[name.lower()] = name.encode(), filled(text, values.__getitem__).encode()
        return Exchange(found, headers.values(), self._turn) if found or headers else None

    def trust(self, bundle: bytes) -> dict[str, str]:
        """The host's certificates with the authority's own: as PEM, and as a file for Java."""
        pem = bundle.rstrip() + b"\n" + self.authority.pem().encode()
        with warnings.catch_warnings(action="ignore"):  # about certificates of the host's
            trusted = load_pem_x509_certificates(pem)
        certificates = [PKCS12Certificate(each, b"certificate %d" % number) for number, each in enumerate(trusted)]
        java = serialize_java_truststore(certificates, BestAvailableEncryption(JAVA_PASSWORD.encode()))
        return {"pem": pem.decode("utf-8", "replace"), "java": b64encode(java).decode()}


def _covers(each: Rule, host: str, port: int) -> bool:
    return each.covers_name(host) and port in each.ports()
