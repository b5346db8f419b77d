"""Values, and pure functions over them."""
