"""Schedules and times to live."""
