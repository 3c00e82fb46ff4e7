"""Whether a broker is alone or a member of a cluster, and what follows from that for its parts."""
