"""`rocketq cluster`: the brokers, how they are doing, and their settings."""

from rocketq.cli.human import broker
from rocketq.cli.human.tables import commands

run = commands("The brokers, how they are doing, and their settings.", broker.TABLE)
