"""Hostile and careless clients, at random, against an engine as it runs."""
