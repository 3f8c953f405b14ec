"""Connections: who reads and writes them, and who answers."""
