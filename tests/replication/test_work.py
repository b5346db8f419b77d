"""Messages between engine and replicator are decoded as they were encoded."""

from __future__ import annotations

import msgspec
import pytest

from headwater.model.copied import Copied
from headwater.replication.work import (
    Committed,
    FileRange,
    NatsOrigin,
    Plan,
    PlanRequest,
    Receipt,
    Work,
    commit_subject,
    decode_committed,
    decode_plan,
    decode_plan_request,
    decode_receipts,
    encode,
    plan_subject,
)
from headwater.table.schema import folder_of

WORK = Work(
    id="w1",
    target="T",
    upstream="O > >",
    expected=b"\x01",
    start_seq=5,
    stop_seq=9,
    files=(FileRange("/a.parquet", 0, 1, 9),),
    removed=b"\x02",
    tail=b"\x03",
    filters=("a.>",),
    transforms=(("a", "b"),),
    stream_transform=("x", "y"),
    source_header=("O", ">", ">", "id"),
    staging="/staging",
)


@pytest.mark.parametrize(
    "work",
    [WORK, Work(id="w2", target="T", upstream="u", expected=b"", start_seq=1, stop_seq=1, mirrored=True)],
)
def test_a_plan_comes_through(work: Work) -> None:
    assert decode_plan(encode(Plan(works=(work,)))) == Plan(works=(work,))


def test_an_origin_comes_through_with_its_credentials() -> None:
    origin = NatsOrigin(servers=("nats://127.0.0.1:1",), api_prefix="$JS.B.API", stream="O", token="t")
    work = Work(id="w", target="T", upstream="u", expected=b"", start_seq=1, stop_seq=2, origin=origin)
    assert decode_plan(encode(Plan(works=(work,)))).works[0].origin == origin


def test_receipts_and_the_answer_to_them_come_through() -> None:
    receipts = [
        Receipt(work="w1", target="T", upstream="u", expected=b"\x01", through=9, rows=2, data=b"\x05"),
        Receipt(work="w2", target="T", upstream="v", expected=b"", error="no disk"),
    ]
    assert decode_receipts(encode(receipts)) == receipts
    committed = Committed(taken=(2, 0), refused=("", "no disk"))
    assert decode_committed(encode(committed)) == committed


def test_each_store_has_subjects_of_its_own() -> None:
    assert plan_subject("one") != plan_subject("two")
    assert plan_subject("one") != commit_subject("one")


def test_a_request_is_decoded_and_without_slots_it_means_two() -> None:
    request = PlanRequest(name="one", under_way=("a", "b"), slots=16)
    assert decode_plan_request(encode(request)) == request
    assert decode_plan_request(msgspec.msgpack.encode({"name": "before"})) == PlanRequest(
        name="before", slots=2
    )


def test_a_piece_of_work_knows_about_how_much_of_a_plan_it_takes() -> None:
    assert WORK.exchange_bytes >= len(encode(Plan(works=(WORK,))))
    more = 2 * WORK.files[0].exchange_bytes
    larger = msgspec.structs.replace(WORK, tail=bytes(5000), removed=bytes(300), files=WORK.files * 3)
    assert larger.exchange_bytes == WORK.exchange_bytes + 4999 + 299 + more


@pytest.mark.parametrize("name", ["O", "ORDERS_OF-A-LONG-NAME" * 9])
def test_so_does_a_file_wherever_it_lies_and_came_from(name: str) -> None:
    copied = Copied(name, "0123456789ab", 1 << 60, 1 << 60, 1 << 60, 1 << 60, 1 << 60)
    path = f"/store/{name}/table/{folder_of(-(1 << 60), copied)}/part-{'0' * 36}-00000000.parquet"
    for origin in (None, copied):
        file = FileRange(path, -(1 << 60), 1 << 60, 1 << 60, origin)
        size = len(msgspec.msgpack.encode(file))
        assert size <= file.exchange_bytes < 2 * size


def test_a_text_that_is_no_utf_8_is_a_decoding_error_like_any_other() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_plan_request(b"\x81\xa4name\xa1\xff")
    with pytest.raises(msgspec.DecodeError):
        decode_receipts(b"\x91\x81\xa4work\xa1\xff")
