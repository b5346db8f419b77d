"""Atomic batches, as `pub --atomic` sends them: all messages are stored, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.cli.session import Json, Session, UnreachableError, answer_of
from headwater.errors import ApiError, Error
from headwater.model.unique import unique_id

if TYPE_CHECKING:
    from headwater.cli.publish import Letter

MAX_MESSAGES = 1000
"""The most messages that a server accepts in one batch."""


def numbered(letters: Sequence[Letter], batch: str) -> list[Letter]:
    """Return the letters with the headers of one batch. The last one commits it."""
    assert letters
    made = []
    for place, letter in enumerate(letters, 1):
        headers = {**(letter.headers or {}), "Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(place)}
        if place == len(letters):
            headers["Nats-Batch-Commit"] = "1"
        made.append(replace(letter, headers=headers))
    return made


async def stored_together(session: Session, letters: Sequence[Letter]) -> Json:
    """Return the acknowledgement of the whole batch. After an error none of its messages is stored."""
    if len(letters) > MAX_MESSAGES:
        raise Error(f"too many messages for one batch: {len(letters):,}, at most {MAX_MESSAGES:,}")
    first, *others = numbered(letters, unique_id())
    try:
        if others:
            # The first message is a request, so that a stream that does not allow batches refuses early.
            opened = await session.ask(first.subject, first.data, headers=first.headers)
            if opened.data:
                answer_of(opened.data, first.subject)
            for letter in others[:-1]:
                await session.nats.publish(letter.subject, letter.data, headers=letter.headers)
        last = others[-1] if others else first
        answer = await session.ask(last.subject, last.data, headers=last.headers)
        ack = answer_of(answer.data, last.subject)
    except UnreachableError as error:
        why = str(error) if "no answer" in str(error) else f'no stream has the subject "{first.subject}"'
        raise Error(f"nothing was stored: {why}") from None
    except ApiError as error:
        raise Error(f"nothing was stored: {error}") from None
    if ack.get("count") != len(letters):
        raise Error(
            f"stream {ack.get('stream')} does not allow batches and stored the messages one by one: "
            "allow them with `headwater stream edit NAME --allow-batch`"
        )
    return ack
