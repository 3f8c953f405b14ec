"""The lite pull consumer: queues are shared, messages are fetched by the caller."""
