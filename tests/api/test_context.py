"""Answers are counted, errors among them."""

from __future__ import annotations

from doors import Asker


async def test_the_account_shows_how_many_requests_were_answered_before(ask: Asker) -> None:
    await ask.ask("STREAM.NAMES")
    await ask.ask("STREAM.INFO.X")
    await ask.ask("STREAM.INFO.Y")
    assert (await ask.ask("INFO"))["api"] == {"level": 5, "total": 3, "errors": 2}
    assert (await ask.ask("INFO"))["api"]["total"] == 4
