"""What keeps a store in bounds, and counts what it does."""
