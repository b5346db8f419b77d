"""One script of JetStream behaviour, driven by official clients against Headwater and against nats-server."""
