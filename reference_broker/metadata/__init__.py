"""Which topics there are, and how they are created."""
