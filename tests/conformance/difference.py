"""Where two recordings of one scenario disagree, field by field."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from conformance.probe import Answer


class _Absent:
    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()


@dataclass(frozen=True)
class Difference:
    """One field of one answer that the two servers filled differently."""

    scenario: str
    label: str
    path: str
    request: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        return (
            f"{self.scenario}: {self.label}: {self.path or '(whole)'}: "
            f"nats-server {self.expected!r}, here {self.actual!r}"
        )


def fields(expected: Any, actual: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield path and both values of every field that differs, the deepest ones that can be named."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted(expected.keys() | actual.keys()):
            below = f"{path}/{key}" if path else key
            yield from fields(expected.get(key, ABSENT), actual.get(key, ABSENT), below)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, (theirs, ours) in enumerate(zip(expected, actual, strict=True)):
            yield from fields(theirs, ours, f"{path}[{index}]")
    elif type(expected) is not type(actual) or expected != actual:
        yield path, expected, actual


def compare(scenario: str, expected: list[Answer], actual: list[Answer]) -> list[Difference]:
    """Return every difference between what the reference and the server under test answered."""
    theirs = {answer.label: answer for answer in expected}
    ours = {answer.label: answer for answer in actual}
    found = []
    for label in [*theirs, *(label for label in ours if label not in theirs)]:
        left, right = theirs.get(label), ours.get(label)
        request = (left or ours[label]).request
        pair = left.value if left else ABSENT, right.value if right else ABSENT
        found += [Difference(scenario, label, path, request, a, b) for path, a, b in fields(*pair)]
    return found
