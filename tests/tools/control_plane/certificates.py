"""A certificate authority of a test run, and certificates that it signs."""

from __future__ import annotations

import base64
import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
ADDRESSES = ("127.0.0.1", "10.0.0.1")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path

    def certificate_data(self) -> str:
        """The certificate in the form of kubeconfigs and EKS."""
        return base64.b64encode(self.certificate.read_bytes()).decode()


class Authority:
    """Signs the certificates of the servers and of the clients that have no token."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = name("nodeless-tests", ())
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        certificate = (
            begin(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pair = self._write("ca", certificate, self._key)

    def server(self, file: str) -> Pair:
        """For a server on this machine."""
        names = [*map(x509.DNSName, HOSTS), *(x509.IPAddress(ipaddress.ip_address(a)) for a in ADDRESSES)]
        return self._issue(file, name(file, ()), ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(names))

    def client(self, file: str, user: str, groups: tuple[str, ...] = ()) -> Pair:
        """For a client: in Kubernetes the common name is the user, and organizations are groups."""
        return self._issue(file, name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def signing_key(self, file: str) -> Path:
        """A key without a certificate, for service account tokens."""
        return self._key_file(file, ec.generate_private_key(ec.SECP256R1()))

    def _issue(self, file: str, subject: x509.Name, usage: x509.ObjectIdentifier, *extensions: x509.ExtensionType) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = begin(subject, self._name, key).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return self._write(file, builder.sign(self._key, hashes.SHA256()), key)

    def _write(self, file: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
        path = self._directory / f"{file}.crt"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return Pair(path, self._key_file(file, key))

    def _key_file(self, file: str, key: ec.EllipticCurvePrivateKey) -> Path:
        path = self._directory / f"{file}.key"
        encoded = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
        path.touch(mode=0o600)
        path.write_bytes(encoded)
        return path


def name(common: str, organizations: tuple[str, ...]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, o) for o in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def begin(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
    )
