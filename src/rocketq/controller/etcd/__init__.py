"""etcd's own gRPC interface, as far as a controller needs it."""
