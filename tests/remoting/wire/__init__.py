"""Bytes and commands."""
