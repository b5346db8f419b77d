"""Reads OpenMetrics text with the parser of Prometheus's own Python client."""

from __future__ import annotations

from prometheus_client.openmetrics.parser import text_string_to_metric_families

Samples = dict[str, list[tuple[dict[str, str], float]]]


def parsed(text: bytes) -> Samples:
    """Return the samples by name; a text that breaks the format raises."""
    samples: Samples = {}
    for family in text_string_to_metric_families(text.decode()):  # type: ignore[no-untyped-call]
        assert family.documentation, family.name
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((dict(sample.labels), float(sample.value)))
    return samples
