"""Commands about consumers."""
