"""Every protocol of the source with several implementations has a suite here, or a reason why not."""

from __future__ import annotations

import ast
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src" / "headwater"
SUITES = {
    "Announcements": "test_announcements.py",
    "Clock": "test_clock.py",
    "Disk": "test_disk.py",
    "Fence": "test_fence.py",
    "Holder": "test_holder.py",
    "Objects": "test_objects.py",
    "Observer": "test_observer.py",
    "Run": "test_run.py",
    "Shelf": "test_shelf.py",
    "Sink": "test_sink.py",
    "Speaker": "test_speaker.py",
    "StoredBytes": "test_stored_bytes.py",
}
WITHOUT_SUITE = {
    "Asks": "one method `request`; only the two clients of the JetStream API are used as one",
    "Cluster": "one method `run`; only SparkCluster is used as one, and tests/replication has a stand-in",
    "Incoming": "one method `read`; an archive is the only source of such bytes",
    "Timed": "one method `tick`; tests/delivery/test_timers.py tests its contract from the caller's side",
}
"""Protocols of one method, which classes satisfy by accident, and why they need no suite."""


class Found:
    """The classes of the source with their members, own and inherited."""

    def __init__(self) -> None:
        self._members: dict[str, set[str]] = {}
        self._bases: dict[str, list[str]] = {}
        for path in sorted(SOURCE.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    self._members[node.name] = _own(node)
                    self._bases[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]

    def protocols(self) -> set[str]:
        """Return the names of all protocols."""
        return {name for name, bases in self._bases.items() if bases == ["Protocol"]}

    def members(self, name: str) -> set[str]:
        """Return the members of a class."""
        above = (self.members(base) for base in self._bases.get(name, ()))
        return self._members.get(name, set()).union(*above)

    def implementations(self, protocol: str) -> list[str]:
        """Return the classes with all members of a protocol."""
        wanted = self.members(protocol)
        others = self._members.keys() - self.protocols()
        return sorted(name for name in others if wanted <= self.members(name))


def _own(node: ast.ClassDef) -> set[str]:
    """Return the methods, fields and attributes that a class defines."""
    found = set()
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(part.name)
            stored = [each for each in ast.walk(part) if isinstance(each, ast.Attribute)]
            found |= {each.attr for each in stored if isinstance(each.ctx, ast.Store)}
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            found.add(part.target.id)
        elif isinstance(part, ast.Assign):
            found |= {target.id for target in part.targets if isinstance(target, ast.Name)}
    return found


def test_every_protocol_with_several_implementations_has_a_suite() -> None:
    found = Found()
    several = {name for name in found.protocols() if len(found.implementations(name)) > 1}
    assert several - {"SocketLink"} == set(SUITES) | set(WITHOUT_SUITE)


def test_the_suites_exist_and_every_suite_is_that_of_something() -> None:
    assert [file for file in SUITES.values() if not (HERE / file).exists()] == []
    others = {"test_every_protocol.py", "test_origin_readers.py"}
    assert {path.name for path in HERE.glob("test_*.py")} == set(SUITES.values()) | others


def test_implementations_are_found_by_their_members() -> None:
    assert Found().implementations("Holder") == ["ConsumerState", "Hold"]
    assert Found().implementations("Shelf") == ["LocalShelf", "ObjectShelf"]
