"""HTTP pages for monitoring an engine."""
