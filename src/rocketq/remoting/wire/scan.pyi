# Nothing for Python: the scans are called from compiled modules alone (header_scan.pxd).
