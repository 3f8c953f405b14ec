"""A task's own connection to a broker."""
