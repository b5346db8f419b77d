"""What the engine knows and decides about sources and mirrors."""
