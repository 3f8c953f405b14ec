"""The gRPC protocol of RocketMQ 5, in a broker's process or before brokers."""
