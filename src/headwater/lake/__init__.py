"""Streams as tables in Python: what `headwater.scan`, `headwater.read` and `headwater.Lake` are made of."""
