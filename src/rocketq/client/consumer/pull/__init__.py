"""The pull consumer: every request is the caller's own."""
