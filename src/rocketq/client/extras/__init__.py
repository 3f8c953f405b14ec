"""Conveniences over the producer: sending objects, and log lines."""
