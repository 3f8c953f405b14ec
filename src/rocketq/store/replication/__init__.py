"""Copies of the log in other brokers: a master streams it, slaves append it as it is.

`replicas` is the master's side, `follower` the slave's; `frames` is what goes over the wire
between them.
"""
