"""The strip of sites says which of them answer."""

from __future__ import annotations

from consoles import sampler_with, stream_answer
from headwater.console.site_states import site_states


def test_a_site_that_does_not_answer_says_why() -> None:
    sampler = sampler_with(stream_answer("A"), error="connection refused")
    assert site_states(sampler)["local"]["error"] == "connection refused"
    assert site_states(sampler)["local"]["streams"] == 1
