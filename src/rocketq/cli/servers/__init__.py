"""Running the parts: NameServer, broker, both, and as processes of their own."""
