"""The push consumer: messages are handed to a listener."""
