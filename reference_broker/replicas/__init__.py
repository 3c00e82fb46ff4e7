"""What a broker does for the partitions that it has."""
