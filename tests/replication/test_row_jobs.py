"""Errors of failed messages are added to receipts; `tests/on_spark/test_row_jobs.py` runs jobs."""

from __future__ import annotations

from typing import Any

from headwater.replication.row_jobs import _explained
from headwater.replication.work import Receipt
from headwater.replication.worker.row_writer import RowSample


class Plan:
    """Says of each message why it fails."""

    def reason(self, message: tuple[Any, ...]) -> str:
        if message[1] == 9:
            raise ValueError("odd")
        return "" if message[1] == 3 else f"[X] message {message[1]}"


def test_a_receipt_has_the_error_of_each_sample_and_an_example_for_the_others() -> None:
    receipt = Receipt(work="w", target="T", upstream="U", expected=b"", stopped="message 4: the SQL fails")
    samples = [RowSample(seq, 1, "o", "s", b"", b"p") for seq in (3, 4, 9)]
    found = _explained(receipt, samples, Plan())  # type: ignore[arg-type]
    assert found.errors == {4: "[X] message 4", 9: "odd", 0: "[X] message 4"}
    assert found.stopped == "message 4: [X] message 4"
    assert _explained(receipt, [], Plan()) == receipt  # type: ignore[arg-type]
