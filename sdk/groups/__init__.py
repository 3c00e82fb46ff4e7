"""Consumer groups, whose members share partitions and commit the group's offsets."""
