"""NATS Streaming on top of streams: channels, client ids, subscriptions and their acknowledgements."""
