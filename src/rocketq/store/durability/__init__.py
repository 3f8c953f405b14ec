"""What makes records durable, and what finds them again after a crash."""
