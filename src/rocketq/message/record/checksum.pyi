# Nothing for Python: called from compiled modules alone (checksum.pxd).
