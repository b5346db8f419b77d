"""A missing export is named with the line that fixes it."""

from __future__ import annotations

import pytest

from headwater.replication.exports import (
    broken_off,
    needed,
    needed_for_queue,
    unacknowledged,
    unanswered,
    unanswered_flow,
    undelivered,
)


@pytest.mark.parametrize(
    ("subject", "exported", "imported"),
    [
        ("$JS.A.API.STREAM.INFO.S", "$JS.API.STREAM.INFO.S", "$JS.A.API.STREAM.INFO.S"),
        ("$JS.A.API.CONSUMER.CREATE.S", "$JS.API.CONSUMER.>", "$JS.A.API.CONSUMER.>"),
        ("from.acme.DIRECT.GET.S", "$JS.API.DIRECT.GET.S", "from.acme.DIRECT.GET.S"),
    ],
)
def test_an_unanswered_api_is_named_with_its_export_and_its_import(
    subject: str, exported: str, imported: str
) -> None:
    said = unanswered(subject)
    assert said.startswith(f"no responders on {subject}: ")
    assert f'exports: [{{service: "{exported}"}}]' in said
    assert f'subject: "{exported}"}}, to: "{imported}"' in said


def test_an_api_of_ones_own_account_needs_no_export() -> None:
    assert unanswered("$JS.API.STREAM.INFO.S") == "no responders on $JS.API.STREAM.INFO.S"
    assert unanswered("other") == "no responders on other"


def test_deliveries_that_do_not_arrive_are_named_with_their_export() -> None:
    assert 'exports: [{stream: "deliver.acme.>"}]' in undelivered("deliver.acme")
    assert "external.deliver" in undelivered("")


def test_unanswered_flow_control_is_named_with_its_export() -> None:
    assert 'exports: [{service: "$JS.FC.S.>"}]' in unanswered_flow("$JS.FC.S.C.x1y2")


def test_the_exports_that_are_needed_begin_with_the_three_of_nats_server() -> None:
    services = ['{ service: "$JS.API.CONSUMER.>" }', '{ stream: "d.>" }', '{ service: "$JS.FC.S.>" }']
    assert needed("S", "d")[:3] == services


def test_a_pull_that_breaks_off_is_named_with_the_kind_of_its_export() -> None:
    said = broken_off("$JS.A.API.CONSUMER.MSG.NEXT.S.C")
    assert 'exports: [{service: "$JS.API.CONSUMER.>", response: stream}]' in said


@pytest.mark.parametrize(
    ("key", "exported"),
    [("$JS.ACK.S.C", "$JS.ACK.S.>"), ("$JS.ACK.hub.h4sh.S.C", "$JS.ACK.hub.h4sh.S.>")],
)
def test_unconfirmed_acknowledgements_are_named_with_their_export(key: str, exported: str) -> None:
    assert f'exports: [{{service: "{exported}"}}]' in unacknowledged(key)


def test_a_queue_needs_pulls_with_many_answers_and_acknowledgements() -> None:
    pulls, acks, _ = needed_for_queue("S")
    assert "response: stream" in pulls
    assert '"$JS.ACK.S.>"' in acks
