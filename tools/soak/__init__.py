"""Long runs under load and faults. Each counts violations of the product's promises, and fails if there are any."""
