"""What every other package stands on: errors, clock, configuration, JSON, files, services."""
