"""Sources and mirrors in the engine: planning ranges, committing receipts, tracking lag."""
