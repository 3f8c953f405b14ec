"""`python -m rocketq.cli`: the command where no script is installed."""

from rocketq.cli import main

main()
