"""The health of a pipeline: its state and its lag, for `headwater check pipeline`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.cli.health import Figure, Health

PIPELINE_SUITE = "pipeline"


def judge_pipeline(info: Mapping[str, Any], lag_warn: int, lag_critical: int) -> Health:
    """Return the health of a pipeline; thresholds of 0 are not set."""
    health = Health(str(info["config"]["name"]), suite=PIPELINE_SUITE)
    state, problem, lag = info["state"], info["problem"], info["lag"]
    if state == "failing":
        health.criticals.append(f"failing: {problem}")
    elif state == "running":
        health.oks.append("running")
    else:
        health.warnings.append(f"{state}{': ' + problem if problem else ''}")
    if lag is None:
        if lag_warn or lag_critical:
            health.unknowns.append("the lag is unknown")
    elif lag_critical and lag >= lag_critical:
        health.criticals.append(f"{lag} messages behind")
    elif lag_warn and lag >= lag_warn:
        health.warnings.append(f"{lag} messages behind")
    health.figures += [
        Figure("lag", lag, "Messages that are not read yet", lag_warn, lag_critical),
        Figure("rate", info["rate"], "Messages read a second in the last batch"),
        Figure("state_rows", info["state_rows"], "Rows of state"),
        Figure("starts", info["starts"], "Starts of the query since its runner started"),
    ]
    return health
