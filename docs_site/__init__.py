"""The docs as a site: `make docs` builds it."""
