"""The extension object says what is known, and nothing of what is not."""

from __future__ import annotations

from headwater.model.gaps import RETENTION, Gap, Gaps
from headwater.model.progress import Phase, Progress
from headwater.wire.progress_json import progress_json

SECOND = 1_000_000_000


def test_an_upstream_that_nothing_is_known_of_says_little() -> None:
    assert progress_json(Progress(behind_s=None, is_known=False)) == {
        "phase": "starting",
        "seq": 0,
        "rate": {"msgs": 0.0, "bytes": 0.0},
        "copied": {"msgs": 0, "bytes": 0},
    }


def test_everything_that_is_known_is_said() -> None:
    gaps = Gaps().with_gap(Gap(3, 8, 1_700_000_000 * SECOND, RETENTION)).restarted(1_700_000_001 * SECOND)
    shown = progress_json(
        Progress(
            phase=Phase.RETRYING,
            waiting="for a reason",
            seq=50,
            origin_last_seq=200,
            began_seq=0,
            msgs_per_s=12.5,
            bytes_per_s=1234.5678,
            behind_s=3.14159,
            caught_up_in_s=12.15,
            copied_msgs=42,
            copied_bytes=4200,
            committed_ns=1_700_000_002 * SECOND,
            seen_ns=1_700_000_003 * SECOND,
            failures=2,
            failing_ns=1_700_000_004 * SECOND,
            next_try_ns=1_700_000_005 * SECOND,
            gaps=gaps,
        )
    )
    assert shown == {
        "phase": "retrying",
        "waiting": "for a reason",
        "seq": 50,
        "origin_last_seq": 200,
        "done": 0.25,
        "rate": {"msgs": 12.5, "bytes": 1234.57},
        "copied": {"msgs": 42, "bytes": 4200},
        "behind": 3.142,
        "caught_up_in": 12.15,
        "last_commit": "2023-11-14T22:13:22Z",
        "last_contact": "2023-11-14T22:13:23Z",
        "failing_since": "2023-11-14T22:13:24Z",
        "next_attempt": "2023-11-14T22:13:25Z",
        "failures": 2,
        "gaps": {
            "count": 1,
            "sequences": 6,
            "recent": [
                {"first_seq": 3, "last_seq": 8, "time": "2023-11-14T22:13:20Z", "reason": "retention"}
            ],
        },
        "restarts": {"count": 1, "time": "2023-11-14T22:13:21Z"},
    }
