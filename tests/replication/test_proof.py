"""Only requests that prove the secret are accepted, each once, and an answer fits one request."""

from __future__ import annotations

import pytest

from headwater.replication import proof
from headwater.replication.proof import ProofCheck, Prover, UnprovenError

SECRET = b"secret"


def pair() -> tuple[Prover, ProofCheck]:
    """Return both sides; the asking side knows the engine's run."""
    prover, check = Prover(lambda: SECRET), ProofCheck(SECRET)
    with pytest.raises(UnprovenError) as refused:
        prover.answer(b"", check.refusal)
    assert refused.value.is_refusal
    return prover, check


def test_a_request_and_its_answer_pass() -> None:
    prover, check = pair()
    request = prover.request(b"plan", b"inbox", b"body")
    proven = check.request(b"plan", b"inbox", request)
    assert proven is not None
    assert proven.body == b"body"
    assert prover.answer(request, check.answer(proven, b"works")) == b"works"


def test_a_first_request_is_refused_until_the_run_is_known() -> None:
    prover, check = Prover(lambda: SECRET), ProofCheck(SECRET)
    assert check.request(b"plan", b"inbox", prover.request(b"plan", b"inbox", b"")) is None
    with pytest.raises(UnprovenError) as first:
        prover.answer(b"", check.refusal)
    with pytest.raises(UnprovenError) as second:
        prover.answer(b"", check.refusal)
    assert (first.value.is_refusal, second.value.is_refusal) == (True, False)
    assert check.request(b"plan", b"inbox", prover.request(b"plan", b"inbox", b"")) is not None


@pytest.mark.parametrize(
    ("subject", "reply"), [(b"commit", b"inbox"), (b"plan", b"mine"), (b"plani", b"nbox"), (b"", b"")]
)
def test_a_request_is_for_one_subject_and_one_inbox(subject: bytes, reply: bytes) -> None:
    prover, check = pair()
    request = prover.request(b"plan", b"inbox", b"body")
    assert check.request(subject, reply, request) is None
    assert check.request(b"plan", b"inbox", request) is not None


def test_a_request_is_taken_once_and_late_ones_within_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "WINDOW", 3)
    prover, check = pair()
    asked = [prover.request(b"plan", b"inbox", b"%d" % number) for number in range(20)]
    assert check.request(b"plan", b"inbox", asked[5]) is not None
    assert check.request(b"plan", b"inbox", asked[5]) is None
    assert check.request(b"plan", b"inbox", asked[3]) is not None
    assert check.request(b"plan", b"inbox", asked[2]) is None
    for request in asked[6:]:
        assert check.request(b"plan", b"inbox", request) is not None
    assert not any(check.request(b"plan", b"inbox", request) for request in asked)


def test_what_was_asked_of_an_engine_before_its_start_is_worth_nothing() -> None:
    prover, _ = pair()
    request = prover.request(b"plan", b"inbox", b"body")
    assert ProofCheck(SECRET).request(b"plan", b"inbox", request) is None


def test_a_changed_or_short_request_is_none() -> None:
    prover, check = pair()
    request = prover.request(b"plan", b"inbox", b"body")
    for at in range(len(request)):
        changed = request[:at] + bytes([request[at] ^ 1]) + request[at + 1 :]
        assert check.request(b"plan", b"inbox", changed) is None
        assert check.request(b"plan", b"inbox", request[:at]) is None
    assert check.request(b"plan", b"inbox", request) is not None


def test_an_answer_to_another_request_is_not_taken() -> None:
    prover, check = pair()
    one, two = (prover.request(b"plan", b"inbox", b"body") for _ in range(2))
    proven = check.request(b"plan", b"inbox", one)
    assert proven is not None
    answer = check.answer(proven, b"works")
    for wrong in (answer[:-1], answer + b"x", b"", b"nonsense", one):
        with pytest.raises(UnprovenError):
            prover.answer(one, wrong)
    with pytest.raises(UnprovenError):
        prover.answer(two, answer)


def test_an_engine_without_a_secret_takes_nothing() -> None:
    prover, check = Prover(lambda: b""), ProofCheck(b"")
    with pytest.raises(UnprovenError):
        prover.answer(b"", check.refusal)
    assert check.request(b"plan", b"inbox", prover.request(b"plan", b"inbox", b"")) is None


def test_senders_are_forgotten_after_many_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "SENDERS", 2)
    _, check = pair()
    for _ in range(5):
        prover = Prover(lambda: SECRET)
        with pytest.raises(UnprovenError):
            prover.answer(b"", check.refusal)
        assert check.request(b"plan", b"inbox", prover.request(b"plan", b"inbox", b"")) is not None
    assert len(check._seen) == 2
