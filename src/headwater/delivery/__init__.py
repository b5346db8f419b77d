"""From a stream to its consumers."""
