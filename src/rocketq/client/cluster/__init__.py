"""What every client of a process shares: connections, routes, calls to brokers and NameServers."""
