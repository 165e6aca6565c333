"""A certificate authority for one sandbox: its programs trust it, and nobody else ever does.

With its certificates, Cloche can put secrets into requests over TLS.  It lives in the memory of the egress process, for
as long as the sandbox does, and its keys are never in a file system.
"""

from __future__ import annotations

import os
import ssl
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_MOST_LEAVES = 64  # names at once; the one that was used longest ago is made again when it is needed
_SKEW = timedelta(days=2)  # a sandbox's clock, or the host's, may be wrong
_CA_LIFE = timedelta(days=825)
_LEAF_LIFE = timedelta(days=30)
_RENEWED = timedelta(days=10)  # before its end
_MOST_COMMON_NAME = 64  # characters, as X.509 has it


class Authority:
    """Makes certificates for names, for one sandbox."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        # Its name differs from that of any other sandbox, or a trust store with two of them could take the wrong one.
        self._name = _named(f"Cloche sandbox {os.urandom(8).hex()}")
        self._certificate = (
            self._begun(self._name, self._key.public_key(), _CA_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(digital_signature=False, key_cert_sign=True, crl_sign=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        # One key for all names: they are all Cloche's, and its making is most of a certificate's time.
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._leaves: OrderedDict[str, tuple[datetime, ssl.SSLContext]] = OrderedDict()

    def __repr__(self) -> str:
        return "Authority(…)"

    def pem(self) -> str:
        """The authority's own certificate, for the sandbox's trust stores; it is no secret."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def context(self, name: str) -> ssl.SSLContext:
        """What a server with this name, or address, uses for TLS."""
        kept = self._leaves.pop(name, None)
        now = datetime.now(UTC)
        if kept is None or kept[0] < now:
            kept = (now + _LEAF_LIFE - _RENEWED, self._context(name))
        self._leaves[name] = kept
        while len(self._leaves) > _MOST_LEAVES:
            self._leaves.popitem(last=False)
        return kept[1]

    def _context(self, name: str) -> ssl.SSLContext:
        leaf = self._leaf(name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        key = self._leaf_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        # The ssl module reads keys from files alone; this one is only in memory, and only this process has it.
        number = os.memfd_create("leaf", os.MFD_CLOEXEC)
        try:
            with open(number, "wb", closefd=False) as file:
                file.write(key + leaf.public_bytes(serialization.Encoding.PEM))
            context.load_cert_chain(f"/proc/self/fd/{number}")
        finally:
            os.close(number)
        return context

    def _leaf(self, name: str) -> x509.Certificate:
        try:
            subject: x509.GeneralName = x509.IPAddress(ip_address(name))
        except ValueError:
            subject = x509.DNSName(name)
        return (
            self._begun(_named(name[-_MOST_COMMON_NAME:]), self._leaf_key.public_key(), _LEAF_LIFE)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True, key_cert_sign=False, crl_sign=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName([subject]), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, life: timedelta) -> x509.CertificateBuilder:
        """A certificate without the parts that differ; strict clients want to find each key's identifier."""
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(now + life)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, digital_signature: bool, key_cert_sign: bool, crl_sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )
