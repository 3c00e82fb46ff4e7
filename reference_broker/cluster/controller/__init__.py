"""The controller of a cluster whose registry is ZooKeeper's: a state machine without I/O."""
