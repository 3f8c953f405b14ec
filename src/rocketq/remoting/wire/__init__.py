"""Bytes to commands and back."""
