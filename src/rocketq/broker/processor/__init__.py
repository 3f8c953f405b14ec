"""One class for each family of requests; each says in `routes` which codes it answers."""
