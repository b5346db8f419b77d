"""Generated pages of the reference."""
