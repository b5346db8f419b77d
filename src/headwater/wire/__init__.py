"""Bytes and JSON to values and back: no sockets, no clock."""
