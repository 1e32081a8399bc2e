"""Doors for agent frameworks, each behind an extra of its own; nothing here is loaded unless it is imported by name."""
