"""Delivering a stream's messages to its consumers."""
