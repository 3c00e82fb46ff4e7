"""The controller of a ZooKeeper-based cluster: a state machine without I/O."""
