"""The user's side of a consumer, which hands out fetched records and moves the positions."""
