"""The replicator: copies sources and mirrors on Spark, and what its executors run."""
