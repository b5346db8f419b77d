"""The script: one module per part of JetStream, one function per behaviour."""

from conformance.scenarios import (  # noqa: F401
    account,
    advisories,
    batch_contents,
    batches,
    counters,
    direct,
    expiry,
    fast_ingest,
    keyvalue,
    lifecycle,
    limits,
    messages,
    publishing,
    purge,
    republish,
    rollup,
    schedules,
    snapshots,
    transform,
    validation,
)
