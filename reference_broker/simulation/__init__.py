"""A cluster on a network, disks, clocks and a registry that a seed decides about; and what must always hold in it."""
