"""`python -m rocketq.cli`: the same as `python -m rocketq`."""

from rocketq_command import rocketq

rocketq()
