"""Messages of schemas/coordinator/transaction_state."""
