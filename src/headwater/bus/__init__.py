"""The connection to nats-server, and the server that the engine brings along."""
