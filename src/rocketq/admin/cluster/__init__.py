"""The servers: brokers and their states, NameServers, controllers, replication."""
