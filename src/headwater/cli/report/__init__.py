"""Reports about one stream: drawn in the terminal, or as a picture."""
