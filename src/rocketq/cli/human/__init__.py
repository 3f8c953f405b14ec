"""Short commands for people, over what `rocketq.admin` does.

Names come first and without a dash, the cluster is implied, and what RocketMQ keeps for itself
stays out of sight unless it is asked for. Everything prints tables, or data with --json.
"""
