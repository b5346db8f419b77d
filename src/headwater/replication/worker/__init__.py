"""What Spark executors run: read a range of an origin, rewrite it, write files."""
