"""Bulk writes to one stream: parts staged as files, and their commit as one change."""
