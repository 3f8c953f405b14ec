"""The simple consumer."""
