"""Files and mappings, below everything that gives them a meaning."""
