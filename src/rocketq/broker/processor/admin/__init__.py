"""What administrators ask of a broker, a module for each family of requests."""
