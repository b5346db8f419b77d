"""Clients of a JetStream API: what the commands, sites and `headwater.connect` have in common."""
