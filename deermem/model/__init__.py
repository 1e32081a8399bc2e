"""Frozen values: no I/O, no clock."""
