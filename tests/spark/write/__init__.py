"""From Spark into RocketMQ."""
