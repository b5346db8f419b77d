"""The differences from nats-server that are known and meant, each with its reason."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from conformance.difference import Difference


@dataclass(frozen=True)
class KnownDifference:
    """A difference that is no failure: where it shows, what both say, and why we differ."""

    title: str
    scenarios: tuple[str, ...]
    label: str
    path: str
    nats_server: str
    headwater: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        """Whether the difference is this one; label and path may hold `*`."""
        return (
            difference.scenario in self.scenarios
            and fnmatchcase(difference.label, self.label)
            and fnmatchcase(difference.path, self.path)
        )


KNOWN: tuple[KnownDifference, ...] = ()


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "differences.md"


def explained(difference: Difference) -> bool:
    """Whether a known difference covers this one."""
    return any(known.covers(difference) for known in KNOWN)


def stale(scenario: str, found: list[Difference]) -> list[KnownDifference]:
    """Return the known differences of a scenario that the servers no longer show."""
    return [known for known in KNOWN if scenario in known.scenarios and not any(map(known.covers, found))]


INTRODUCTION = """# Differences from nats-server

One script of stream and publish behaviour is driven by the official clients against nats-server 2.15.1 and
against Headwater (`tests/conformance`). Answers are compared field by field: times, identifiers, versions and
names of servers by their form, everything else exactly. What differs stands here, with its reason, or is a
failure. A row that no longer differs is a failure too. `tests/conformance/known.py` holds the rows; this page
is rendered from it.

"""


def rendered() -> str:
    """Return the page `docs/reference/differences.md`."""
    if not KNOWN:
        return INTRODUCTION + "There are none at present.\n"
    rows = ["| What | nats-server | Headwater | Why | Seen in |", "|---|---|---|---|---|"]
    for known in KNOWN:
        seen = ", ".join(f"`{name}`" for name in known.scenarios)
        cells = (known.title, known.nats_server, known.headwater, known.reason, seen)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return INTRODUCTION + "\n".join(rows) + "\n"
