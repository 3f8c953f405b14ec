"""The figures and the health of a broker."""
