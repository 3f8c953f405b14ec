"""Where the state of broker sets is kept, and who may change it."""
