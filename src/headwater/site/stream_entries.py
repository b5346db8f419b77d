"""The streams of a site file in JetStream's JSON, checked before anything runs."""

from __future__ import annotations

import json

from headwater.errors import ApiError
from headwater.site.document import Entry, listed, optional
from headwater.site.topology import Account, DeclaredStream, Json
from headwater.wire.stream_json import decode_config


def read_streams(entry: Entry, accounts: tuple[Account, ...]) -> tuple[DeclaredStream, ...]:
    """Return the streams of a list; a stream may be listed once per account."""
    streams: list[DeclaredStream] = []
    for each in entry.items():
        stream = _stream(each, [account.name for account in accounts])
        if (stream.account, stream.name) in ((other.account, other.name) for other in streams):
            raise each.wrong(f"the stream {stream.name!r} is listed twice")
        streams.append(stream)
    return tuple(streams)


def _stream(entry: Entry, accounts: list[str]) -> DeclaredStream:
    """Return one stream: its config, a file with its config, or either with an account."""
    account, source = accounts[0], entry
    if isinstance(entry.value, dict) and "config" in entry.value:
        held = entry.fields("account", "config")
        account, source = optional(held, "account", Entry.text, account), held["config"]
        if account not in accounts:
            raise held["account"].wrong(
                f"there is no account {account!r} for streams: use {listed(accounts)}"
            )
    config = _file(source) if isinstance(source.value, str) else source.json()
    if not isinstance(config, dict) or not config.get("name"):
        raise entry.wrong(
            "not a stream: write its config in JetStream's JSON, with a name, or the name of a file"
        )
    try:
        decode_config(json.dumps(config).encode())
    except ApiError as error:
        raise entry.wrong(f"the config of {config['name']!r} is invalid: {error.description}") from None
    return DeclaredStream(account, config, f"{entry.file}:{entry.line}")


def _file(entry: Entry) -> Json | None:
    try:
        config = json.loads(entry.existing().read_text("utf-8"))
    except ValueError as error:
        raise entry.wrong(f"{entry.text()} is not JSON: {error}") from None
    return config if isinstance(config, dict) else None
