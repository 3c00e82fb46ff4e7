"""The consumer's part of classic groups: what members tell each other, and how their leader assigns partitions."""
