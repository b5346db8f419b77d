"""What an operator sees of a running engine: metrics, health, and the pages that serve them."""
