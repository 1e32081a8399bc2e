"""From a conversation to facts: what was said, what of it matters, and how it reaches a model."""
