"""A message's properties: their codec, and the walk over their encoded form."""
