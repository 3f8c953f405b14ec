"""Flushes, crashes, and what is left after them."""
