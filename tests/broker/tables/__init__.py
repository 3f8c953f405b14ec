"""What a broker keeps in its JSON files."""
