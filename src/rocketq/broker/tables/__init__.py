"""What a broker knows and keeps in its config folder."""
