"""A client that may publish to an engine's subjects and is not its replicator changes and sees nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from control.copiers import Copier, copying, count_is, create, held, publish
from doors import Door, connected
from headwater.bus.connection import Connection
from headwater.replication.proof import Prover, UnprovenError
from headwater.replication.work import (
    PlanRequest,
    Receipt,
    Work,
    commit_subject,
    encode,
    plan_subject,
)
from headwater.wire.frames import Frame

pytestmark = pytest.mark.usefixtures("impatient")


class Stranger:
    """A client that receives all messages of the server and has no secret."""

    def __init__(self, door: Door, connection: Connection) -> None:
        self.connection = connection
        self.plan = plan_subject(door.store_id).encode()
        self.commit = commit_subject(door.store_id).encode()
        self.items: list[Frame] = []
        self.heard: list[Frame] = []

    def flush(self) -> None:
        """Keep what was overheard."""
        self.heard += self.items
        self.items.clear()

    async def ask(self, subject: bytes, body: bytes) -> bytes:
        """Return what is answered to a request without proof, and to one with a proof of another secret."""
        prover = Prover(lambda: b"guessed")
        answers = []
        for _ in range(2):
            asked: list[bytes] = []

            def request(reply: bytes, asked: list[bytes] = asked) -> bytes:
                asked.append(prover.request(subject, reply, body))
                return asked[0]

            answers.append((await self.connection.request(subject, request, 20))[3])
            with pytest.raises(UnprovenError):
                prover.answer(asked[0], answers[-1])
        plain = (await self.connection.request(subject, body, 20))[3]
        assert {plain, *answers} == {plain}
        return plain


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[tuple[Door, Copier, Stranger]]:
    """Yield an engine with an origin and a copy of it, its replicator, and a subscribed stranger."""
    async with copying(tmp_path / "store") as (door, copier):
        stranger = Stranger(door, await connected(door.client_url))
        stranger.connection.subscribe(b"$HEADWATER.>", stranger)
        await stranger.connection.flush()
        await create(door, name="O", subjects=["o"])
        await create(door, name="SECRET", subjects=["secret"])
        await publish(door, "o", 5)
        await publish(door, "secret", 5)
        await create(door, name="S", sources=[{"name": "O"}])
        yield door, copier, stranger
        await stranger.connection.close()


async def next_work(copier: Copier) -> Work:
    """Return the next piece of work; after a failure that takes a moment."""
    while not (works := await copier.asked()):
        pass
    return works[0]


def receipt_of(work: Work, **changes: object) -> Receipt:
    fields = {"work": work.id, "target": work.target, "upstream": work.upstream, "expected": work.expected}
    return Receipt(**{**fields, "through": work.stop_seq, "rows": 5, **changes})  # type: ignore[arg-type]


async def test_a_strangers_request_is_refused_and_takes_no_lease(
    scene: tuple[Door, Copier, Stranger],
) -> None:
    door, copier, stranger = scene
    works = await copier.asked()
    assert len(works) == 1
    answer = await stranger.ask(stranger.plan, encode(PlanRequest(name="copier")))
    assert b"o 0" not in answer
    assert len(answer) == 17
    # The replicator's work is still its own: it is neither given to another nor taken back.
    (upstream,) = door.upstreams.of("S")
    assert upstream.open_ranges == 1
    assert await copier.asked([works[0].id]) == ()
    copier.between = lambda receipts: receipts
    await copier.until(count_is(door, "S", 5))


@pytest.mark.parametrize("field", ["path", "sums"])
async def test_a_strangers_receipt_deletes_no_file_and_copies_no_message(
    scene: tuple[Door, Copier, Stranger], tmp_path: Path, field: str
) -> None:
    door, copier, stranger = scene
    work = await next_work(copier)
    await door.domain.stream("SECRET").checkpoint()
    (table_file,) = (door.domain.stream("SECRET").directory / "table").rglob("*.parquet")
    victims = [tmp_path / "victim", table_file, door.store / "catalog.db"]
    victims[0].write_bytes(b"precious")
    staging = door.domain.stream("S").directory / "staging"
    for victim in victims:
        for name in (str(victim), "../" * 12 + str(victim).lstrip("/"), victim.name):
            await stranger.ask(stranger.commit, encode([receipt_of(work, **{field: name})]))
        assert victim.exists()
        # Not even who knows the secret can name a file that is not staged for the target.
        with_proof = receipt_of(work, **{field: str(victim)})
        assert await copier.hand_in([with_proof]) == 0
        assert victim.exists()
        work = await next_work(copier)
    staging.mkdir(exist_ok=True)
    (staging / "link").symlink_to(table_file)
    assert await copier.hand_in([receipt_of(work, path="link")]) == 0
    assert table_file.exists()
    assert [m.data for m in await held(door, "S")] == []
    await copier.until(count_is(door, "S", 5))
    assert {m.data for m in await held(door, "S")} == {b"o %d" % number for number in range(5)}


async def test_what_a_replicator_asked_is_worth_nothing_when_a_stranger_repeats_it(
    scene: tuple[Door, Copier, Stranger],
) -> None:
    door, copier, stranger = scene
    await copier.until(count_is(door, "S", 5))
    await publish(door, "o", 3, start=5)
    await stranger.connection.flush()
    asked = [frame for frame in stranger.heard if frame[0] in (stranger.plan, stranger.commit)]
    assert {frame[0] for frame in asked} == {stranger.plan, stranger.commit}
    for frame in asked:
        answer = (await stranger.connection.request(frame[0], frame[3], 20))[3]
        assert len(answer) == 17  # the refusal
        # With the reply of the true one, too.
        stranger.connection.publish(frame[0], frame[3], frame[1])
    await stranger.connection.flush()
    (upstream,) = door.upstreams.of("S")
    assert upstream.open_ranges == 0
    assert (await door.domain.stream("S").reading.state()).messages == 5
    await copier.until(count_is(door, "S", 8))


async def test_answers_of_a_stranger_are_not_accepted(
    scene: tuple[Door, Copier, Stranger], tmp_path: Path
) -> None:
    door, copier, stranger = scene
    await copier.asked()
    forged = Work(
        id="w", target="S", upstream="O > >", expected=b"", start_seq=1, stop_seq=5, staging=str(tmp_path)
    )

    class Forger(Stranger):
        def flush(self) -> None:
            for frame in self.items:
                body = msgspec.msgpack.encode({"works": [forged]})
                self.connection.publish(frame[1], b"\1" + bytes(32) + body)
            self.items.clear()

    stranger.connection.subscribe(stranger.plan, Forger(door, stranger.connection))
    await stranger.connection.flush()
    for _ in range(5):
        try:
            assert all(work.id != "w" for work in await copier.asked())
        except UnprovenError:
            continue


async def test_a_receipt_for_a_target_that_was_made_again_is_refused(
    scene: tuple[Door, Copier, Stranger],
) -> None:
    door, copier, _ = scene
    # Large enough for a staged file, which the target could take as it is.
    for number in range(8):
        await door.asker.publish("o", bytes([number]) * 100_000)
    await door.domain.stream("O").checkpoint()
    kept: list[Receipt] = []
    copier.between = lambda receipts: kept.extend(receipts) or []  # type: ignore[func-returns-value]
    await copier.tick()
    assert kept
    assert any(receipt.adopted or receipt.path for receipt in kept)
    await door.asker.ask("STREAM.DELETE.S")
    await create(door, name="S", sources=[{"name": "O"}])
    assert await copier.hand_in(kept) == 0
    assert (await door.domain.stream("S").reading.state()).messages == 0
    copier.between = lambda receipts: receipts
    await copier.until(count_is(door, "S", 13))
    await door.domain.stream("S").checkpoint()
    assert len(await held(door, "S")) == 13


async def test_a_staged_file_that_is_gone_or_damaged_is_copied_again(
    scene: tuple[Door, Copier, Stranger],
) -> None:
    door, copier, _ = scene
    for number in range(8):
        await door.asker.publish("o", bytes([number]) * 100_000)
    await door.domain.stream("O").checkpoint()
    staging = door.domain.stream("S").directory / "staging"
    spoiled = iter(["unlink", "cut", "flip"])

    def spoil(receipts: list[Receipt]) -> list[Receipt]:
        for receipt in receipts:
            for file in receipt.adopted:
                how, path = next(spoiled, ""), staging / file.name
                content = path.read_bytes()
                if how == "unlink":
                    path.unlink()
                elif how:
                    path.unlink()  # it is a link to the origin's
                    path.write_bytes(content[:-9] if how == "cut" else content[:-9] + bytes(9))
        return receipts

    copier.between = spoil
    await copier.until(count_is(door, "S", 13))
    assert next(spoiled, None) is None
    assert len(await held(door, "S")) == 13
    assert len(await held(door, "O")) == 13
