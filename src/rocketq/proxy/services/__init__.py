"""The RPCs, by what they are about."""
