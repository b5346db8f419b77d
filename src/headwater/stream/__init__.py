"""One stream: it opens and composes publishing, reading, retention and replica."""
