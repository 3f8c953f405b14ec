# Nothing for Python: called from compiled modules alone (entry_values.pxd).
