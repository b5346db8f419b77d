"""What is said of consumers, against fixed data, in 80 and 120 columns and in a pipe."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from golden import assert_golden
from headwater.cli.consumer.info import info_rows, list_sheet, report_sheet, state_rows
from headwater.cli.render import console, show
from headwater.model.times import SECOND

GOLDEN = Path(__file__).parents[1] / "golden"
WIDTHS = (80, 120, None)

WORK: dict[str, Any] = {
    "stream_name": "ORDERS",
    "name": "WORK",
    "created": "2026-01-02T03:04:05.5Z",
    "config": {
        "name": "WORK", "durable_name": "WORK", "description": "the workers", "deliver_policy": "all",
        "ack_policy": "explicit", "ack_wait": 30 * SECOND, "max_deliver": 5, "replay_policy": "instant",
        "max_ack_pending": 1000, "max_waiting": 512, "filter_subjects": ["orders.eu.>", "orders.us.>"],
        "backoff": [SECOND, 60 * SECOND], "num_replicas": 0, "sample_freq": "30",
        "pause_until": "2026-01-02T05:04:05Z", "priority_policy": "pinned_client",
        "priority_groups": ["a", "b"], "priority_timeout": 120 * SECOND,
        "metadata": {"team": "sales", "_nats.level": "3", "_nats.req.level": "1", "_nats.ver": "2.15.1"},
    },
    "delivered": {"consumer_seq": 1234, "stream_seq": 2345, "last_active": "2026-01-02T04:04:04.06Z"},
    "ack_floor": {"consumer_seq": 1200, "stream_seq": 2300, "last_active": "2026-01-02T04:03:05Z"},
    "num_ack_pending": 1000, "num_redelivered": 7, "num_waiting": 3, "num_pending": 12345,
    "paused": True, "pause_remaining": 3600 * SECOND, "ts": "2026-01-02T04:04:05Z",
    "priority_groups": [
        {"group": "a", "pinned_client_id": "xyz", "pinned_ts": "2026-01-02T04:00:00Z"},
        {"group": "b", "pinned_ts": "0001-01-01T00:00:00Z"},
    ],
    "cluster": {
        "name": "c1", "leader": "n1",
        "replicas": [{"name": "n2", "current": True, "active": SECOND}, {"name": "n3", "offline": True}],
    },
}  # fmt: skip
AUDIT: dict[str, Any] = {
    "stream_name": "ORDERS",
    "name": "AUDIT",
    "created": "2026-01-02T03:04:05Z",
    "config": {
        "name": "AUDIT", "deliver_policy": "by_start_sequence", "opt_start_seq": 4200, "ack_policy": "none",
        "replay_policy": "original", "deliver_subject": "audit.orders", "deliver_group": "auditors",
        "filter_subject": "orders.>", "rate_limit_bps": 8192, "idle_heartbeat": 5 * SECOND,
        "flow_control": True, "headers_only": True, "mem_storage": True, "num_replicas": 1,
        "inactive_threshold": 300 * SECOND, "backoff": [],
    },
    "delivered": {"consumer_seq": 0, "stream_seq": 0},
    "ack_floor": {"consumer_seq": 0, "stream_seq": 0},
    "num_pending": 0, "ts": "2026-01-02T04:04:05Z",
}  # fmt: skip
STREAM: dict[str, Any] = {"config": {"name": "ORDERS"}, "state": {"messages": 50000}}


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def written(item: object, width: int | None) -> str:
    out = io.StringIO()
    show(item, to=console(out, width))
    return out.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("held", [WORK, AUDIT], ids=["work", "audit"])
def test_the_information_looks_as_agreed(held: dict[str, Any], width: int | None) -> None:
    text = written(info_rows(held), width)
    assert_golden(GOLDEN, f"consumer_info_{held['name'].lower()}_{width or 'piped'}", text)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= (width or 200)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_tables_look_as_agreed(width: int | None) -> None:
    infos = [WORK, AUDIT]
    for name, sheet in (("list", list_sheet(infos)), ("report", report_sheet(STREAM, infos))):
        text = written(sheet, width)
        assert_golden(GOLDEN, f"consumer_{name}_{width or 'piped'}", text)
        assert max(map(len, text.splitlines())) <= (width or 200)


def test_plain_numbers_have_no_commas() -> None:
    text = written(report_sheet(STREAM, [WORK], raw=True), None)
    assert "12345 " in text
    assert "30000000000" in text


def test_the_state_alone_leaves_the_config_out() -> None:
    text = written(state_rows(AUDIT), 80)
    assert text.startswith("State for Consumer ORDERS > AUDIT created 2026-01-02 03:04:05\n")
    assert "Ack Policy" not in text
    assert "Active Interest: No interest" in text


def test_a_consumer_that_stands_still_is_coloured() -> None:
    pending = report_sheet(STREAM, [WORK]).rows[0][4]
    assert isinstance(pending, Text)
    assert pending.style == "bold red"
    calm = report_sheet(STREAM, [{**WORK, "num_ack_pending": 999}]).rows[0][4]
    assert isinstance(calm, Text)
    assert calm.style == ""


def test_many_steps_of_a_backoff_are_shortened() -> None:
    steps = [place * SECOND for place in range(1, 21)]
    text = written(info_rows({**WORK, "config": {**WORK["config"], "backoff": steps}}), 120)
    assert "1.00s, 2.00s, ..., 19.00s, 20.00s (20 total)" in text


def test_an_ended_pause_is_shown_as_passed() -> None:
    text = written(info_rows({**WORK, "paused": False}), 120)
    assert "Paused Until Deadline: 2026-01-02 05:04:05 (passed)" in text


def test_a_bound_consumer_names_its_group() -> None:
    text = written(info_rows({**AUDIT, "push_bound": True}), 120)
    assert "Active Interest: Active using Queue Group auditors" in text
