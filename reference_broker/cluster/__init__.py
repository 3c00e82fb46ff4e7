"""The parts that make brokers one cluster: the registry that they share, and the controller."""
