"""The stored record: its layout, and how it is written and read."""
