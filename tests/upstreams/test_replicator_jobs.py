"""The jobs of replicators: what they copy, what came of it, and those that were lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from control.copiers import copying, count_is, create, publish
from headwater.replication.work import FileRange, NatsOrigin, Receipt, Work
from headwater.upstreams.replicator_jobs import (
    LOST,
    MOST_COPIES,
    MOST_ENDED,
    MOST_FAILED,
    MOST_LETTERS,
    MOST_RUNNING,
    ReplicatorJobs,
    kind_of,
)


def work(number: int, target: str = "COPY", **more: object) -> Work:
    made = {"expected": b"", "start_seq": 1, "stop_seq": 2, "upstream": "up", **more}
    return Work(id=f"w{number}", target=target, **made)  # type: ignore[arg-type]


def receipt(number: int, error: str = "") -> Receipt:
    return Receipt(work=f"w{number}", target="COPY", upstream="up", expected=b"", error=error)


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def __call__(self) -> int:
        return self.now_ns


def jobs_with(works: Sequence[Work], replicator: str = "one") -> tuple[ReplicatorJobs, Clock]:
    clock = Clock()
    jobs = ReplicatorJobs(clock)
    jobs.planned(replicator, works, lambda work: f"origin of {work.target}")
    return jobs, clock


def test_a_job_runs_until_all_of_its_receipts_are_there() -> None:
    jobs, clock = jobs_with([work(1, read_bytes=10), work(2, read_bytes=5), work(3, "OTHER")])
    clock.now_ns += 2_000_000_000
    jobs.returned([receipt(1), receipt(3)], [30, 10], ["", ""])
    [running] = jobs.listed()
    assert running["copies"] == [
        {"stream": "COPY", "origin": "origin of COPY", "tasks": 2},
        {"stream": "OTHER", "origin": "origin of OTHER", "tasks": 1},
    ]
    assert (running["is_running"], running["tasks"], running["done"], running["read_bytes"]) == (
        True,
        3,
        2,
        15,
    )
    assert (running["messages"], running["seconds"], running["messages_per_s"]) == (40, 2.0, 20.0)
    jobs.returned([receipt(2)], [0], ["the cursor has moved"])
    clock.now_ns += 9_000_000_000
    [ended] = jobs.listed()
    assert (ended["is_running"], ended["done"], ended["failed"], ended["seconds"]) == (False, 3, 1, 2.0)
    assert ended["error"] == "the cursor has moved"
    jobs.returned([receipt(2)], [1], [""])
    assert jobs.listed() == [ended], "a receipt that comes again changes nothing"


def test_the_error_of_a_task_is_shown_in_bounded_length() -> None:
    jobs, _ = jobs_with([work(1)])
    jobs.returned([receipt(1, "x" * 10_000)], [0], ["refused"])
    assert jobs.listed()[0]["error"] == "x" * MOST_LETTERS


def test_a_plan_without_work_is_no_job() -> None:
    assert jobs_with([])[0].listed() == []


def test_what_a_replicator_does_not_name_any_more_is_lost() -> None:
    jobs, _ = jobs_with([work(1), work(2)])
    jobs.planned("other", [work(3)], lambda work: "")
    jobs.asked("one", ["w2"])
    assert [job["is_running"] for job in jobs.listed()] == [True, True]
    jobs.asked("one", [])
    assert [(job["replicator"], job["error"]) for job in jobs.listed()] == [("other", ""), ("one", LOST)]
    jobs.forget_others("one")
    assert [job["is_running"] for job in jobs.listed()] == [False, False]


def test_everything_is_bounded_and_failed_jobs_are_kept_longer() -> None:
    jobs, _ = jobs_with([work(number, f"S{number}") for number in range(MOST_COPIES + 3)])
    [job] = jobs.listed()
    assert (len(job["copies"]), job["more_copies"]) == (MOST_COPIES, 3)
    for number in range(100, 100 + MOST_RUNNING + 20):
        jobs.planned("one", [work(number)], lambda work: "")
    for number in range(1000, 1000 + MOST_ENDED * 2):
        jobs.planned("one", [work(number)], lambda work: "")
        jobs.returned([receipt(number)], [1], [""])
    found = jobs.listed()
    assert sum(job["is_running"] for job in found) <= MOST_RUNNING
    assert len(found) <= MOST_RUNNING + MOST_ENDED + MOST_FAILED
    assert any(job["error"] == LOST for job in found)


def test_a_task_reads_files_messages_or_a_remote_origin() -> None:
    files = (FileRange("f", 1, 1, 2),)
    origin = NatsOrigin(api_prefix="$JS.API", stream="O")
    assert [
        kind_of(work(1)),
        kind_of(work(1, files=files)),
        kind_of(work(1, files=files, origin=origin)),
    ] == [
        "messages",
        "files",
        "remote",
    ]


async def test_an_engine_records_the_jobs_of_its_replicator(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 5)
        await create(door, name="S", sources=[{"name": "O"}])
        await copier.until(count_is(door, "S", 5))
        found = door.upstreams.jobs.listed()
        assert sum(job["messages"] for job in found) == 5
        assert found[-1]["copies"] == [{"stream": "S", "origin": "O", "tasks": 1}]
        assert not any(job["error"] for job in found)
