"""Messages of schemas/coordinator."""
