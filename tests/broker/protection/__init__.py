"""Strangers who mean harm."""
