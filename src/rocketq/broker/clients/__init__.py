"""Who is connected: the producers and consumers known from heartbeats."""
