"""A stream as the origin or the target of a copy."""
