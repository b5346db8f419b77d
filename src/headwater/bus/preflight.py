"""Checks before the engine attaches to a running nats-server, each with the line of config that fixes it."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from headwater.bus.connection import Connection, Denial, NoRespondersError
from headwater.bus.leaf import LeafConnection
from headwater.bus.options import LEAF_PORT, ConnectOptions
from headwater.bus.permissions import INTERNAL
from headwater.errors import BusError
from headwater.wire.frames import Frame

# Without responders the answer is immediate. This is for silent subscribers, such as a tap on `>`.
PROBE_TIMEOUT_S = 0.75
OLDEST = (2, 9)
_USER_INFO = "$SYS.REQ.USER.INFO"
# The subjects we publish to, with a subject below each that has no subscriber.
_PUBLISH = {
    "_INBOX.>": "_INBOX.headwater.preflight",
    "$JSC.R.>": "$JSC.R.headwater.preflight",
    "$JS.S.>": "$JS.S.headwater.preflight",
    "$JS.M.>": "$JS.M.headwater.preflight",
    "$JS.EVENT.>": "$JS.EVENT.headwater.preflight",
    INTERNAL: "$HEADWATER.preflight",
}


class _DiscardSink:
    """A sink for what arrives while permissions are tested."""

    def __init__(self) -> None:
        self.items: list[Frame] = []

    def flush(self) -> None:
        self.items.clear()


async def preflight(
    options: ConnectOptions, leaf: ConnectOptions | None, domain: str, wanted: str = ""
) -> tuple[BusError, ...]:
    """Raise a BusError for what keeps the engine from serving, and return what only limits it.

    `wanted` is the account that our user must belong to; without one it may be any.
    """
    denials: list[Denial] = []
    connection = Connection(replace(options, name=f"{options.name} preflight"), on_denied=denials.append)
    await connection.connect()
    try:
        check_version(str(connection.info.get("version", "")))
        _check_jetstream(connection, domain)
        silent = await _check_permissions(connection, denials, domain)
        account, named = await _account(connection, silent)
        _check_account(wanted, account, named)
        await _check_unserved(connection, domain, silent)
    finally:
        await connection.close()
    if leaf is None:
        problem = "No leaf port was given, so messages cannot be delivered to consumers."
        return (BusError(problem, f'leafnodes {{ listen: "0.0.0.0:{LEAF_PORT}" }}   # and --leaf URL'),)
    limit = await _check_leaf(leaf, domain, account)
    return () if limit is None else (limit,)


def api_prefix(domain: str) -> str:
    """Return the first tokens of all API subjects of a domain."""
    return f"$JS.{domain}.API" if domain else "$JS.API"


def check_version(version: str) -> None:
    """Raise if a nats-server is older than those that engines were tested with; no version is accepted."""
    found = re.match(r"v?(\d+)\.(\d+)\.", version)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise BusError(f"The server is nats-server {version}; an engine attaches to {wanted} and later.")


def _check_jetstream(connection: Connection, domain: str) -> None:
    info = connection.info
    if not info.get("jetstream"):
        return
    if not domain:
        problem = (
            "The server's own JetStream answers $JS.API, so a domain of our own is needed: --domain NAME."
        )
        raise BusError(problem, "jetstream: disabled   # or keep it, and give --domain")
    if info.get("domain", "") == domain:
        problem = (
            f"The domain {domain} is the one of the server's own JetStream; choose another with --domain."
        )
        raise BusError(problem, f"jetstream {{ domain: {domain}-own }}   # or another --domain")


async def _check_permissions(connection: Connection, denials: list[Denial], domain: str) -> set[str]:
    """Raise if we lack permissions for serving; return the later requests that are denied."""
    subscribe = [f"{api_prefix(domain)}.>", "$JS.ACK.>", "$JS.FC.>", "$JS.SNAPSHOT.>", "_INBOX.>", INTERNAL]
    sink = _DiscardSink()
    sids = [connection.subscribe(subject.encode(), sink) for subject in subscribe]
    questions = {f"{api_prefix(domain)}.INFO", _USER_INFO}
    for probe in (*_PUBLISH.values(), *questions):
        connection.publish(probe.encode(), b"", reply=b"_INBOX.headwater.preflight")
    await connection.flush()
    for sid in sids:
        connection.unsubscribe(sid)
    denied = {denial.subject for denial in denials}
    missing = [f"subscribe to {subject}" for subject in subscribe if subject in denied]
    missing += [f"publish to {subject}" for subject, probe in _PUBLISH.items() if probe in denied]
    if missing:
        problem = f"The server's permissions do not allow us to {', '.join(missing)}."
        allow = f"publish: {_allowed([*_PUBLISH])}, subscribe: {_allowed(subscribe)}"
        raise BusError(
            problem, f"permissions: {{ {allow} }}   # and the subjects of the streams in subscribe"
        )
    return denied & questions


def _allowed(subjects: list[str]) -> str:
    return "[" + ", ".join(f'"{subject}"' for subject in subjects) + "]"


async def _check_unserved(connection: Connection, domain: str, silent: set[str]) -> None:
    """Raise if another service answers for the domain already, as far as we may ask."""
    subject = f"{api_prefix(domain)}.INFO"
    if subject in silent:
        return
    try:
        await connection.request(subject.encode(), b"", PROBE_TIMEOUT_S)
    except (NoRespondersError, TimeoutError):
        return
    what = f"The domain {domain}" if domain else "The API of JetStream without a domain"
    raise BusError(f"{what} is already served: there is an answer on {subject}.", "--domain NAME")


def _check_account(wanted: str, account: str, named: str) -> None:
    """Raise if our user belongs to another account: streams must not end up in the wrong folder."""
    if wanted and account and wanted not in (account, named):
        problem = f"Our user belongs to the account {named or account}, not to {wanted}."
        raise BusError(problem, f"accounts {{ {wanted} {{ users: [ … ] }} }}   # or another account = …")


async def _account(connection: Connection, silent: set[str]) -> tuple[str, str]:
    """Return the account of our user and its name, or nothing if the server does not report it."""
    if _USER_INFO in silent:
        return "", ""
    try:
        answer = await connection.request(_USER_INFO.encode(), b"", PROBE_TIMEOUT_S)
        said = json.loads(answer[3])["data"]
        return str(said["account"]), str(said.get("account_name", ""))
    except (NoRespondersError, TimeoutError, ValueError, KeyError, TypeError):
        return "", ""


async def _check_leaf(options: ConnectOptions, domain: str, account: str) -> BusError | None:
    """Return why messages cannot be delivered over the leaf port, if so."""
    leaf = LeafConnection(replace(options, name=f"{options.name}-preflight"), domain)
    try:
        await leaf.connect()
    except BusError as error:
        problem = f"Messages cannot be delivered to consumers, because the leaf port fails: {error.problem}"
        return BusError(problem, error.fix)
    await leaf.close()
    bound = str(leaf.info.get("remote_account", ""))
    if account and bound and account != bound:
        problem = f"The leaf connection belongs to the account {bound}, the client connection to {account}."
        user = options.user or "USER"
        return BusError(problem, f'leafnodes {{ authorization {{ user: {user}, account: "{account}" }} }}')
    return None
