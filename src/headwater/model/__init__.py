"""The nouns and the pure rules over them."""
