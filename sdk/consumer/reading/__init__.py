"""The user's side of a consumer: what was fetched is handed out here, and positions move with it."""
