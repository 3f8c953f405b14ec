"""Users, policies, and the accounts of RocketMQ 4."""
