"""Explicitly acknowledged fetches: nats-server and Headwater side by side."""

from __future__ import annotations

import argparse

from bench.comparison import compare
from bench.generator import Connection
from bench.subscriber import Taken
from bench.subscriber import fetch as fetch_all


def main() -> None:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=500)
    arguments = parser.parse_args()

    def fetch(connection: Connection, messages: int, name: str) -> Taken:
        return fetch_all(connection, messages, name, arguments.batch)

    what = f"durable pull consumer, batches of {arguments.batch}, every message acknowledged"
    compare(what, fetch, arguments.messages, arguments.rounds)


if __name__ == "__main__":
    main()
