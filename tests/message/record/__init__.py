"""Records as they lie in the log."""
