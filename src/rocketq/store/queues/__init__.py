"""Consume queues: where each queue's messages lie in the log."""
