"""Consuming: what the push, lite pull and pull consumers share."""
