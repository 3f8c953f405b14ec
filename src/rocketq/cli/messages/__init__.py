"""Messages on the command line: sent, read, and shown."""
