"""Cases of the protocol itself, with a bare client, each the same for RocketMQ's proxy and ours."""
