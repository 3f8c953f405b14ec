"""Official clients of RocketMQ 5, and what they are run against."""
