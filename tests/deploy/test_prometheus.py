"""The alert rules and the Grafana board, checked by promtool and against a real Prometheus.

Debian's package `prometheus` has both programs. Without it these tests are skipped, and say so.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import nats
import pytest
import yaml

from engines import engine
from headwater.bus.free_port import free_port
from waits import until

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "headwater.rules.yml"
BOARD = ROOT / "deploy" / "grafana" / "headwater.json"
MISSING = "Prometheus is missing: apt-get install -y prometheus"
NAME = re.compile(r"\b(?:headwater|jetstream|process)_[a-z_]+")
PARTS = ("_bucket", "_count", "_sum")

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason=MISSING)
needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason=MISSING)


def rule_queries() -> list[str]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def board_queries() -> list[str]:
    board = json.loads(BOARD.read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    lists = [each["definition"] for each in board["templating"]["list"] if each["type"] == "query"]
    return queries + [re.sub(r"^label_values\((.*), \w+\)$", r"\1", each) for each in lists]


def documented() -> set[str]:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    return set(re.findall(r"`((?:headwater|jetstream|process)_[a-z_]+)`", page))


@pytest.mark.parametrize("queries", [rule_queries, board_queries], ids=["rules", "board"])
def test_only_metrics_that_exist_are_queried(queries: object) -> None:
    assert callable(queries)
    used = {name for query in queries() for name in NAME.findall(query)}
    known = documented()
    known |= {name + part for name in known for part in PARTS}
    assert used
    assert used - known == set()


def test_every_panel_of_the_board_has_a_title_and_its_own_place() -> None:
    panels = json.loads(BOARD.read_text())["panels"]
    cells = [
        (x, y)
        for panel in panels
        for place in (panel["gridPos"],)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)), "panels overlap"
    assert all(panel["title"] for panel in panels)
    assert len({panel["id"] for panel in panels}) == len(panels)


@needs_promtool
def test_promtool_accepts_the_rules_and_their_tests_pass() -> None:
    for arguments in (("check", "rules", RULES.name), ("test", "rules", "headwater.test.yml")):
        done = subprocess.run(["promtool", *arguments], cwd=RULES.parent, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_accepts_every_query_of_the_board(tmp_path: Path) -> None:
    plain = [query.replace("$__rate_interval", "5m") for query in board_queries()]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(plain)]
    path = tmp_path / "board.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_prometheus
async def test_a_real_prometheus_scrapes_an_engine_and_evaluates_the_rules(tmp_path: Path) -> None:
    async with engine(tmp_path, "--http-port", str(http := free_port())) as running:
        client = await nats.connect(running.client_url)
        js = client.jetstream(timeout=60)
        await js.add_stream(name="ORDERS", subjects=["orders"])
        await js.publish("orders", b"1")
        await client.close()
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {"job_name": "headwater", "static_configs": [{"targets": [f"127.0.0.1:{http}"]}]}
            ],
        }
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        port = free_port()
        command = [
            "prometheus",
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with (tmp_path / "prometheus.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:

            def ask(path: str) -> list[dict[str, object]]:
                with urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=60) as answer:
                    data = json.load(answer)["data"]
                return list(data.get("result") or data.get("groups") or [])

            async def asked(path: str) -> list[dict[str, object]]:
                try:
                    return await asyncio.to_thread(ask, path)
                except OSError:
                    return []

            wanted = 'jetstream_stream_total_messages{stream_name="ORDERS"} == 1'
            await until(lambda: asked(f"query?query={quote(wanted)}"), wanted)
            healthy = 'up{job="headwater"} == 1 and on (instance) headwater_build_info'
            assert await asked(f"query?query={quote(healthy)}")

            async def evaluated() -> bool:
                (group,) = await asked("rules") or [{"rules": []}]
                rules = group["rules"]
                assert isinstance(rules, list)
                return bool(rules) and all(rule["health"] == "ok" for rule in rules)

            await until(evaluated, "every rule is evaluated")
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait)
