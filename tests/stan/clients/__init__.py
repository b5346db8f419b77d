"""The real NATS Streaming clients, installed apart from ours and run as processes."""
