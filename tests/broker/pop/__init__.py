"""Pops, acknowledgements, and what comes back."""
