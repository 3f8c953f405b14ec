"""mqadmin's sub-commands."""
