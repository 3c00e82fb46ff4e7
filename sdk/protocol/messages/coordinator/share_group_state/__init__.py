"""Messages of schemas/coordinator/share_group_state."""
