"""Sending: from a message to a broker's answer."""
