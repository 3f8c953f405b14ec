"""Between the messages of gRPC and what brokers know: names, properties, handles, queues."""
