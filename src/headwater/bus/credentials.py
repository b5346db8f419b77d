"""The credentials of a connection: CONNECT fields and the TLS context."""

from __future__ import annotations

import base64
import re
import ssl
from pathlib import Path

import nkeys

from headwater import tls
from headwater.bus.options import Address, ConnectOptions
from headwater.errors import BusError

_BLOCK = re.compile(r"-----BEGIN (?P<what>[A-Z ]+)-----\s+(?P<text>\S+)\s+-+END (?P=what)-+")


def connect_fields(options: ConnectOptions, address: Address, nonce: str) -> dict[str, str]:
    """Return the CONNECT fields with our credentials; a key signs the nonce.

    Credentials in an address take precedence, so that a leaf port can have its own user.
    """
    if address.password:
        return {"user": address.user, "pass": address.password}
    if address.user:
        return {"auth_token": address.user}
    if options.creds_file:
        blocks = dict(_BLOCK.findall(_text(options.creds_file)))
        try:
            jwt, seed = blocks["NATS USER JWT"], blocks["USER NKEY SEED"]
        except KeyError as missing:
            raise BusError(f"The credentials file {options.creds_file} has no {missing.args[0]}.") from None
        return {"jwt": jwt, **_signed(seed, nonce, options.creds_file, name_key=False)}
    if options.nkey_file:
        return _signed(_text(options.nkey_file).strip(), nonce, options.nkey_file, name_key=True)
    if options.token:
        return {"auth_token": options.token}
    if options.user:
        return {"user": options.user, "pass": password_of(options)}
    return {}


def password_of(options: ConnectOptions) -> str:
    """Return the password, read from its file at each connect, if there is one."""
    return _text(options.password_file).strip() if options.password_file else options.password


def authorization(options: ConnectOptions, address: Address) -> str:
    """Return the line of server config that accepts these credentials, without secrets."""
    if address.password:
        return f"authorization {{ users: [ {{ user: {address.user}, password: … }} ] }}"
    if options.creds_file:
        return "resolver: …   # it must know the account that signed the JWT, and the JWT must not be expired"
    if options.nkey_file:
        key = connect_fields(options, address, "")["nkey"]
        return f"authorization {{ users: [ {{ nkey: {key} }} ] }}"
    if options.user:
        return f"authorization {{ users: [ {{ user: {options.user}, password: … }} ] }}"
    if options.token or address.user:
        return "authorization { token: … }"
    return "no_auth_user: …   # or give credentials: --user, --token, --nkey or --creds"


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BusError(f"Cannot read the file {path}: {error}.") from error


def _signed(seed: str, nonce: str, path: str, *, name_key: bool) -> dict[str, str]:
    try:
        pair = nkeys.from_seed(bytearray(seed.encode()))
    except (nkeys.NkeysError, ValueError) as error:
        raise BusError(f"The file {path} has no valid nkey seed.") from error
    signature = base64.urlsafe_b64encode(pair.sign(nonce.encode())).rstrip(b"=").decode()
    fields = {"sig": signature}
    if name_key:
        fields["nkey"] = pair.public_key.decode()
    pair.wipe()
    return fields


def tls_context(options: ConnectOptions) -> ssl.SSLContext:
    """Return the TLS context with the given CA and client certificate."""
    try:
        return tls.client_context(options.tls_ca or "", options.tls_cert or "", options.tls_key or "")
    except OSError as error:
        raise BusError(f"Cannot use the TLS files: {error}.") from error
