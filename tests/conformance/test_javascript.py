"""The official JavaScript client sees the same from Headwater as from nats-server."""

import pytest

from conformance import javascript
from conformance.server import Server
from conformance.verdict import judged

pytestmark = pytest.mark.skipif(javascript.missing() is not None, reason=javascript.missing() or "")


@pytest.mark.parametrize("script", javascript.SCRIPTS)
async def test_headwater_answers_like_nats_server(script: str, reference: Server, headwater: Server) -> None:
    javascript.install()
    verdict = await judged(f"js.{script}", lambda: javascript.on_both(script, reference, headwater))
    assert verdict.agrees, str(verdict)
