"""Benchmarks: the scripts behind every claim of speed."""
