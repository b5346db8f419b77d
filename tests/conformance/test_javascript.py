"""The official JavaScript client sees the same from Headwater as from nats-server."""

import asyncio
from dataclasses import dataclass

import pytest

from conformance import javascript
from conformance.difference import Difference, compare
from conformance.known import explained, stale
from conformance.probe import Answer
from conformance.server import Server

pytestmark = pytest.mark.skipif(javascript.missing() is not None, reason=javascript.missing() or "")


@dataclass
class Recordings:
    """What node recorded against both servers, once for all tests of this module."""

    pair: tuple[dict[str, list[Answer]], dict[str, list[Answer]]] | None = None


@pytest.fixture(scope="module")
def recordings() -> Recordings:
    """Both recordings, empty until the first test fills them."""
    return Recordings()


@pytest.mark.parametrize("script", javascript.SCRIPTS)
async def test_headwater_answers_like_nats_server(
    script: str, recordings: Recordings, reference: Server, headwater: Server
) -> None:
    if recordings.pair is None:
        javascript.install()
        recordings.pair = await asyncio.gather(javascript.run(reference.url), javascript.run(headwater.url))
    expected, actual = recordings.pair
    assert "the script broke off" not in {answer.label for answer in expected[script]}
    found: list[Difference] = compare(f"js.{script}", expected[script], actual[script])
    unexplained = [one for one in found if not explained(one)]
    assert not unexplained, "\n".join(map(str, unexplained))
    assert not stale(f"js.{script}", found), "known differences that no longer differ"
