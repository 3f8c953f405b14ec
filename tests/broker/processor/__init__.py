"""Requests and their answers."""
