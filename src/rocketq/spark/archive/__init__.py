"""Topics kept as Parquet for longer than brokers keep them, and brought back from there."""
