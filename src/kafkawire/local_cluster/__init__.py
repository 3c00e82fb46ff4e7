"""A cluster of brokers on this machine: processes, their ZooKeeper, and the supervisor that starts and stops them."""
