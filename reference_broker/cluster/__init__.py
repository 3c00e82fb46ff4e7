"""What makes brokers one cluster: the registry that they share, and the controller."""
