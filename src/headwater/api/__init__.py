"""The JetStream API: requests about streams and messages, answered as nats-server does."""
