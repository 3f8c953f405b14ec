"""Every setting of a broker: what it means, what it may be, and whether it counts here."""
