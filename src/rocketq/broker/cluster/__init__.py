"""What a broker tells NameServers and other brokers."""
