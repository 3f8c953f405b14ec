"""What brokers tell NameServers and each other."""
