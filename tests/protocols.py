"""The protocols of the source with several implementations, and the suite that tests all of them."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "headwater"
SUITES = {
    "Announcements": "contracts/test_announcements.py",
    "AppendFile": "contracts/test_disk.py",
    "Clock": "contracts/test_clock.py",
    "CopyTarget": "contracts/test_copy_target.py",
    "Disk": "contracts/test_disk.py",
    "Fence": "contracts/test_fence.py",
    "HeadJournal": "contracts/test_journal.py",
    "Holder": "contracts/test_holder.py",
    "Objects": "contracts/test_objects.py",
    "Observer": "contracts/test_observer.py",
    "ResultFiles": "replication/worker/test_result_files.py",
    "Run": "contracts/test_run.py",
    "TableStorage": "contracts/test_table_storage.py",
    "Sink": "contracts/test_sink.py",
    "LinkProtocol": "contracts/test_link_protocol.py",
    "Staging": "table/test_staging.py",
    "StoredBytes": "contracts/test_stored_bytes.py",
}
WITHOUT_SUITE = {
    "RequestClient": "one method `request`; only the two clients of the JetStream API are used as one",
    "Cluster": "one method `run`; only SparkCluster is used as one, and tests/replication has a stand-in",
    "Incoming": "one method `read`; an archive is the only source of such bytes",
    "Replica": "NoReplica does nothing; tests/journal/test_journaled_database.py tests the other one",
    "Timed": "one method `tick`; tests/delivery/test_timers.py tests its contract from the caller's side",
}
"""Protocols that need no suite, and why; classes satisfy one of one method by accident."""


class SourceClasses:
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

    def shared(self) -> set[str]:
        """Return the protocols with several implementations."""
        return {name for name in self.protocols() if len(self.implementations(name)) > 1}

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
