"""Running Spark here."""
