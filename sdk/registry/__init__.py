"""The registry of a cluster: a tree of small nodes with sessions and watches, as in ZooKeeper.

`registry.py` is the interface, `steps.py` is for sequences of operations, and `zookeeper.py` is a ZooKeeper client. The
broker has an in-process implementation (`reference_broker/cluster/embedded_registry.py`). `znodes.py` defines the paths
and contents of Kafka's nodes.
"""
