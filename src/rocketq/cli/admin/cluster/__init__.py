"""Sub-commands about servers: brokers, NameServers, controllers, replication."""
