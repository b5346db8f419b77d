"""Messages that an origin stored after the copy, under copied sequences, are detected by their times."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headwater.errors import BusError
from headwater.model.cursor import Cursor
from headwater.model.times import format_time
from headwater.replication.work import NatsOrigin
from headwater.replication.worker.client import BlockingClient, NoResponderError
from headwater.replication.worker.lost_end import check_covered, is_lost, query_after

SECOND = 1_000_000_000
COPIED = Cursor("origin", 10, 100 * SECOND)
ORIGIN = NatsOrigin(
    api_prefix="$JS.API", stream="O", identity="origin", covered_seq=10, covered_ts=100 * SECOND
)


def shown(seq: int, seconds: int) -> dict[str, Any]:
    return {"seq": seq, "time": format_time(seconds * SECOND)}


class Shows:
    """A client of an origin that answers from a list."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def request(self, subject: str, body: Any) -> Any:
        assert subject == "$JS.API.STREAM.MSG.GET.O"
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"message": answer} if "seq" in answer else {"error": answer}


def check(*answers: Any) -> None:
    check_covered(cast(BlockingClient, Shows(*answers)), ORIGIN)


@pytest.mark.parametrize(("seq", "seconds", "lost"), [(10, 100, 0), (10, 101, 1), (5, 101, 1), (11, 101, 0)])
def test_what_is_later_than_all_that_was_copied_was_not(seq: int, seconds: int, lost: int) -> None:
    assert is_lost(COPIED, shown(seq, seconds)) == bool(lost)


def test_without_a_time_nothing_is_known() -> None:
    assert not is_lost(Cursor("origin", 10), shown(5, 101))
    check_covered(cast(BlockingClient, Shows()), NatsOrigin(api_prefix="$JS.API", stream="O", covered_seq=10))


def test_an_origin_is_asked_for_the_last_copied_message_and_then_by_time() -> None:
    check(shown(10, 100))
    check({"err_code": 10037}, shown(11, 101))
    check({"err_code": 10037}, shown(1, 1))  # behind the last one, nats-server shows the first one
    check({"err_code": 10037}, {"err_code": 10003})
    check(NoResponderError("not exported"))
    assert query_after(100 * SECOND) == {"start_time": "1970-01-01T00:01:40.000000001Z"}


def test_an_origin_that_lost_its_end_is_refused() -> None:
    with pytest.raises(BusError, match="lost its last messages"):
        check(shown(10, 101))
    with pytest.raises(BusError, match="lost its last messages"):
        check({"err_code": 10037}, shown(7, 101))
