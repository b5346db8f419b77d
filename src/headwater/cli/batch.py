"""Atomic batches, as `pub --atomic` sends them: all messages are stored, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.cli.session import Json, Session, UnreachableError, answer_of
from headwater.errors import ApiError, Error
from headwater.model.unique import unique_id

if TYPE_CHECKING:
    from headwater.cli.publish import RenderedMessage

MAX_MESSAGES = 1000
"""The most messages that a server accepts in one batch."""


def numbered(messages: Sequence[RenderedMessage], batch: str) -> list[RenderedMessage]:
    """Return the messages with the headers of one batch. The last one commits it."""
    assert messages
    made = []
    for place, message in enumerate(messages, 1):
        headers = {**(message.headers or {}), "Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(place)}
        if place == len(messages):
            headers["Nats-Batch-Commit"] = "1"
        made.append(replace(message, headers=headers))
    return made


async def stored_together(session: Session, messages: Sequence[RenderedMessage]) -> Json:
    """Return the acknowledgement of the whole batch. After an error none of its messages is stored."""
    if len(messages) > MAX_MESSAGES:
        raise Error(f"too many messages for one batch: {len(messages):,}, at most {MAX_MESSAGES:,}")
    first, *others = numbered(messages, unique_id())
    try:
        if others:
            # The first message is a request, so that a stream that does not allow batches refuses early.
            opened = await session.ask(first.subject, first.data, headers=first.headers)
            if opened.data:
                answer_of(opened.data, first.subject)
            for message in others[:-1]:
                await session.nats.publish(message.subject, message.data, headers=message.headers)
        last = others[-1] if others else first
        answer = await session.ask(last.subject, last.data, headers=last.headers)
        ack = answer_of(answer.data, last.subject)
    except UnreachableError as error:
        why = str(error) if "no answer" in str(error) else f'no stream has the subject "{first.subject}"'
        raise Error(f"nothing was stored: {why}") from None
    except ApiError as error:
        raise Error(f"nothing was stored: {error}") from None
    if ack.get("count") != len(messages):
        raise Error(
            f"stream {ack.get('stream')} does not allow batches and stored the messages one by one: "
            "allow them with `headwater stream edit NAME --allow-batch`"
        )
    return ack
