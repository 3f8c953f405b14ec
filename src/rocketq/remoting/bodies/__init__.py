"""JSON bodies of requests and responses, one module a family."""
