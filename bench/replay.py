"""Ordered replay of a long stream: nats-server and Headwater side by side."""

from __future__ import annotations

import argparse

from bench.comparison import compare
from bench.subscriber import replay


def main() -> None:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    what = f"ordered consumer with flow control, {arguments.messages:,} messages"
    compare(what, replay, arguments.messages, arguments.rounds)


if __name__ == "__main__":
    main()
