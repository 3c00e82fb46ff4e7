"""Messages of schemas/coordinator/consumer_offsets."""
