"""A cluster with a simulated network, disks, clocks and registry, all driven by a seed, and its invariants."""
