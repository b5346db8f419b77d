"""Encoding and decoding bytes and JSON: no sockets, no clock."""
