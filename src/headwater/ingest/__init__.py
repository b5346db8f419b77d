"""From a publish to its acknowledgement."""
