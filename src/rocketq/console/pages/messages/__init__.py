"""Pages of messages: found, looked at, not consumed, not delivered yet."""
