"""The connections to nats-server, and the embedded nats-server."""
