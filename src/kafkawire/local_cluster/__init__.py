"""A cluster on this machine: broker processes, their ZooKeeper, and the supervisor that starts and stops them."""
