"""What a NameServer answers, one module for each family of requests."""
