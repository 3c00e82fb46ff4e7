"""Messages of schemas/records/control."""
