"""The commit log: every record, in the order of arrival."""
