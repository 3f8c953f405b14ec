"""`python -m rocketq`: the command where no script is installed."""

from rocketq_command import rocketq

rocketq()
