"""Long runs under load and faults; each counts violations of its promises, and fails if there are any."""
