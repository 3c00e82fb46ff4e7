"""The registry of a cluster: a tree of small nodes with sessions and watches, as ZooKeeper has it.

`registry.py` is the interface, `steps.py` writes sequences of operations, and `zookeeper.py` is the client of a
ZooKeeper. A broker has an implementation in its own process (`reference_broker/cluster/embedded_registry.py`).
`znodes.py` has the paths and contents of Kafka's nodes.
"""
