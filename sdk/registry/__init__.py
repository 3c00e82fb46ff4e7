"""A cluster's registry: a tree of small nodes with sessions and watches, as in ZooKeeper.

`registry.py` defines the interface, `steps.py` runs sequences of operations, and `zookeeper.py` is a ZooKeeper client.
The broker has an in-process implementation (`reference_broker/cluster/embedded_registry.py`). `znodes.py` defines the
paths and contents of Kafka's nodes.
"""
