"""The JetStream API: one of the doors."""
