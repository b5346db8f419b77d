"""`stream cluster` says in one sentence why it does nothing."""

from __future__ import annotations

import pytest

from jetstreams import Shell


@pytest.mark.parametrize("words", [(), ("step-down", "ORDERS"), ("peer-remove", "ORDERS", "n1", "--force")])
def test_there_is_no_cluster_to_be_managed_and_that_is_said(shell: Shell, words: tuple[str, ...]) -> None:
    ran = shell("stream", "cluster", *words)
    assert ran.code == 1
    assert ran.err.startswith("headwater: streams have no leader and no replicas here")
    assert len(ran.err.splitlines()) == 1
