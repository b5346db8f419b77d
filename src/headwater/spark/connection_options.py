"""The options of the data source that say how to reach a stream; reads and writes have them in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headwater.errors import SettingsError
from headwater.replication.work import NatsOrigin

DEFAULT_SERVER = "nats://127.0.0.1:4222"

CONNECTION_OPTIONS: Mapping[str, str] = {
    "domain": "the JetStream domain of the stream",
    "apiPrefix": "the prefix of the API, instead of a domain",
    "user": "user name",
    "password": "password",
    "token": "token",
    "creds": "credentials file, under the same path on every worker",
    "nkey": "file with an NKey seed, under the same path on every worker",
    "tlsCa": "file with the authorities' certificates",
    "tlsCert": "file with the client's certificate",
    "tlsKey": "file with the client's key",
    "config": "settings file with the server and the credentials, under the same path on every worker",
    "seat": "the account's folder in that file",
}


def refuse_unknown(options: Mapping[str, str], known: Collection[str], ignored: Collection[str] = ()) -> None:
    """Raise an error for an option that is neither known nor ignored; Spark may pass names in lower case."""
    accepted = {name.lower() for name in (*known, *ignored)}
    unknown = [name for name in options if name.lower() not in accepted]
    if unknown:
        raise SettingsError(f"unknown option {unknown[0]!r}; there are {', '.join(known)}")


def origin_of(options: Mapping[str, str], stream: str) -> NatsOrigin:
    """Return the API of a stream as the options name it."""
    domain = options.get("domain")
    return NatsOrigin(
        servers=tuple(each.strip() for each in (options.get("server") or DEFAULT_SERVER).split(",")),
        api_prefix=options.get("apiPrefix") or (f"$JS.{domain}.API" if domain else "$JS.API"),
        stream=stream,
        user=options.get("user") or "",
        password=options.get("password") or "",
        token=options.get("token") or "",
        creds_file=options.get("creds") or "",
        nkey_file=options.get("nkey") or "",
        tls_ca=options.get("tlsCa") or "",
        tls_cert=options.get("tlsCert") or "",
        tls_key=options.get("tlsKey") or "",
        config=options.get("config") or "",
        seat=options.get("seat") or "",
    )
