"""What joins brokers into a cluster: their shared registry, and the controller."""
