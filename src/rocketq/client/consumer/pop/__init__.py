"""What consumers have in common that pop: requests, receipts."""
