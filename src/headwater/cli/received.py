"""A received message as it is shown: a line about it, its headers and its data, or one JSON object."""

from __future__ import annotations

import base64
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click
import msgspec
from nats.aio.msg import Msg

from headwater.cli.phrases import moment, number
from headwater.errors import Error
from headwater.model.times import format_time
from headwater.wire.ack_subject import AckSubject, parse_ack_subject


@dataclass(frozen=True)
class Received:
    """A received message; `ack` describes its delivery if a stream delivered it."""

    subject: str
    data: bytes
    reply: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    ack: AckSubject | None = None

    @classmethod
    def of(cls, message: Msg) -> Received:
        """Return a message of the NATS client."""
        ack = parse_ack_subject(message.reply.encode()) if message.reply else None
        headers = dict(message.headers or {})
        return cls(message.subject, message.data, message.reply, headers, ack)

    @property
    def status(self) -> str:
        """Return the status code of a server's status message, "" for other messages."""
        return str(self.headers.get("Status", "")) if not self.data and not self.ack else ""

    def as_json(self) -> dict[str, Any]:
        """Return the message as JSON; data that is not UTF-8 is base64-encoded."""
        shown: dict[str, Any] = {"subject": self.subject}
        if self.ack is not None:
            shown |= {
                "stream": self.ack.stream.decode(),
                "consumer": self.ack.consumer.decode(),
                "seq": self.ack.stream_seq,
                "consumer_seq": self.ack.consumer_seq,
                "delivered": self.ack.delivered_count,
                "pending": self.ack.pending,
                "time": format_time(self.ack.ts),
            }
        elif self.reply:
            shown["reply"] = self.reply
        if self.headers:
            shown["headers"] = dict(self.headers)
        try:
            shown["data"] = self.data.decode()
        except UnicodeDecodeError:
            shown["data_base64"] = base64.b64encode(self.data).decode()
        return shown


def write_data(data: bytes) -> None:
    """Write data unchanged, followed by a newline."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def write_json_line(value: Mapping[str, Any]) -> None:
    """Write one JSON object per line and flush it for a reader that waits."""
    write_data(msgspec.json.encode(value))


def write_headers(headers: Mapping[str, str], indent: str = "") -> None:
    """Write headers, one per line."""
    for name, value in headers.items():
        click.echo(f"{indent}{name}: {value}")


def write_numbered(received: Received, place: int, *, stamp: str = "", data: bool = True) -> None:
    """Write a message as `sub` does: its number and origin, headers, data, an empty line."""
    before = f"[#{place}]{f' @ {stamp}' if stamp else ''} "
    if received.ack is not None:
        ack = received.ack
        said = f"stream: {ack.stream.decode()} seq: {number(ack.stream_seq)} / pending: {number(ack.pending)}"
        when = moment(format_time(ack.ts))
        click.echo(f"{before}Received JetStream message: {said} / subject: {received.subject} / time: {when}")
    else:
        reply = f' with reply "{received.reply}"' if received.reply else ""
        click.echo(f'{before}Received on "{received.subject}"{reply}')
    if received.headers:
        write_headers(received.headers)
        click.echo()
    if data:
        write_data(received.data)
        click.echo()
    sys.stdout.flush()


def translated(data: bytes, command: str | None, subject: str) -> bytes:
    """Return the data as translated by a command, which may contain {{Subject}}."""
    if not command:
        return data
    words = [word.replace("{{Subject}}", subject) for word in shlex.split(command)]
    try:
        return subprocess.run(words, input=data, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError, IndexError) as error:
        raise Error(f"--translate {command!r} failed: {error}") from None
