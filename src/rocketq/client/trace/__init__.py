"""Trace records of what was sent and consumed."""
