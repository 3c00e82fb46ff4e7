"""The reading side of a consumer (the user's side), which hands out fetched records and moves the positions."""
