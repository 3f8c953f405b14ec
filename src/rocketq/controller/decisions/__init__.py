"""What a controller decides: functions of what is known and what is asked, and nothing else."""
