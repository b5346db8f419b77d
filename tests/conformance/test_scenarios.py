"""Every scenario of the script, answered by Headwater as nats-server answers it."""

import pytest

import conformance.scenarios  # noqa: F401  (fills SCENARIOS)
from conformance.scenario import SCENARIOS, Scenario
from conformance.server import Server
from conformance.verdict import judged
from java import require_java


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
async def test_headwater_answers_like_nats_server(
    scenario: Scenario, reference: Server, headwater: Server
) -> None:
    if scenario.copies:
        require_java()
    verdict = await judged(scenario.name, lambda: scenario.on_both(reference, headwater))
    assert verdict.agrees, str(verdict)
    assert headwater.running(), f"the server died; its log is {headwater.log}"
