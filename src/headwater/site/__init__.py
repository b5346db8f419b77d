"""Sites joined by leaf nodes, from one file: nats-server configs, engines, streams, processes."""
