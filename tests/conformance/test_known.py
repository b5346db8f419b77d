"""The list of known differences is in step with its page and with the script."""

import pytest

import conformance.scenarios  # noqa: F401  (fills SCENARIOS)
from conformance import known
from conformance.difference import Difference
from conformance.javascript import SCRIPTS
from conformance.known import KNOWN, PAGE, KnownDifference, explained, matches, rendered, stale
from conformance.scenario import SCENARIOS

TEXT = KnownDifference("the text", ("a.b", "c.d"), ("create *",), "error/description", "x", "y", "because")


def difference(
    scenario: str = "a.b", label: str = "create it", path: str = "error/description"
) -> Difference:
    return Difference(scenario, label, path, "", 1, 2)


def test_the_page_is_rendered_from_the_list() -> None:
    assert PAGE.read_text() == rendered(), "run: python -m conformance page, from the folder of the tests"


def test_every_row_names_scenarios_that_exist() -> None:
    named = {name for row in KNOWN for name in row.scenarios}
    assert named <= SCENARIOS.keys() | {f"js.{script}" for script in SCRIPTS} | {"nats-cli"}


def test_only_a_star_is_special_in_a_pattern() -> None:
    assert matches('get ["a.*"]', 'get ["a.b"]')
    assert matches("", "")
    assert not matches("", "error")
    assert not matches("[ab]", "a")
    assert not matches("a.c", "abc")


def test_a_row_covers_only_its_own_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "KNOWN", (TEXT,))
    assert explained(difference())
    assert not explained(difference(scenario="e.f"))
    assert not explained(difference(label="update it"))
    assert not explained(difference(path="error/err_code"))


def test_a_row_that_no_longer_differs_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "KNOWN", (TEXT,))
    assert stale("a.b", []) == [TEXT]
    assert stale("a.b", [difference()]) == []
    assert stale("e.f", []) == []
