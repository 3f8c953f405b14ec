"""From RocketMQ into Spark."""
