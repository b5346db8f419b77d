"""Keys, credentials and certificates made on the spot for tests."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import nkeys
import pytest


def new_key(prefix: int = nkeys.PREFIX_BYTE_USER) -> nkeys.KeyPair:
    """Return a fresh key pair of the kind that `prefix` names."""
    return nkeys.from_seed(nkeys.encode_seed(os.urandom(32), prefix))


def public(pair: nkeys.KeyPair) -> str:
    """Return the public key as text."""
    return str(pair.public_key.decode())


def write_seed(path: Path, pair: nkeys.KeyPair) -> str:
    """Write a seed file and return its path."""
    path.write_text(bytes(pair.seed).decode() + "\n")
    return str(path)


def _jwt(
    issuer: nkeys.KeyPair, subject: nkeys.KeyPair, name: str, nats: dict[str, object], expires: int = 0
) -> str:
    claims: dict[str, object] = {"iat": 1700000000, "iss": public(issuer), "jti": name, "name": name}
    claims |= {"sub": public(subject)} | ({"exp": expires} if expires else {})
    parts = [{"typ": "JWT", "alg": "ed25519-nkey"}, {**claims, "nats": {**nats, "version": 2}}]
    body = ".".join(_base64(json.dumps(part).encode()) for part in parts)
    return f"{body}.{_base64(issuer.sign(body.encode()))}"


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass(frozen=True)
class Operator:
    """A server config in operator mode, and the credentials file of one of its users."""

    config: str
    creds_file: str
    expired_file: str
    """The same user's, from long ago."""


def make_operator(directory: Path) -> Operator:
    """Make an operator, one account and one user."""
    operator, account = new_key(nkeys.PREFIX_BYTE_OPERATOR), new_key(nkeys.PREFIX_BYTE_ACCOUNT)
    user = new_key()
    open_limits = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
    account_jwt = _jwt(
        operator, account, "A", {"type": "account", "limits": {**open_limits, "wildcards": True}}
    )
    files = {directory / "user.creds": 0, directory / "expired.creds": 1700000001}
    for path, expires in files.items():
        rights: dict[str, object] = {"type": "user", "subs": -1, "data": -1, "payload": -1}
        user_jwt = _jwt(account, user, "U", rights, expires)
        path.write_text(
            f"-----BEGIN NATS USER JWT-----\n{user_jwt}\n------END NATS USER JWT------\n\n"
            "************************* IMPORTANT *************************\n"
            f"-----BEGIN USER NKEY SEED-----\n{bytes(user.seed).decode()}\n------END USER NKEY SEED------\n"
        )
    operator_jwt = _jwt(operator, operator, "O", {"type": "operator"})
    preload = f"resolver_preload: {{ {public(account)}: {account_jwt} }}"
    return Operator(f"operator: {operator_jwt}\nresolver: MEMORY\n{preload}", *map(str, files))


@dataclass(frozen=True)
class Certificates:
    """Paths of an authority's certificate, and of a server's and a client's with their keys."""

    ca: str
    server_cert: str
    server_key: str
    client_cert: str
    client_key: str

    def config(self, extra: str = "") -> str:
        """Return the tls block of a server."""
        files = f'cert_file: "{self.server_cert}", key_file: "{self.server_key}", ca_file: "{self.ca}"'
        return f"tls {{ {files}, {extra} }}"


def make_certificates(directory: Path) -> Certificates:
    """Make an authority and two certificates signed by it, for 127.0.0.1 and localhost."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make certificates")
    names = directory / "names.cnf"
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    key, days = ["-newkey", "rsa:2048", "-nodes"], ["-days", "2"]

    def openssl(*args: str) -> None:
        subprocess.run(["openssl", *args], cwd=directory, check=True, capture_output=True)

    openssl("req", "-x509", *key, *days, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test authority")
    for name in ("server", "client"):
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", str(names)]
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signed, *days)
    files = ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")
    return Certificates(*(str(directory / file) for file in files))
