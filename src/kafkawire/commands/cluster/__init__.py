"""`kafkawire cluster`: brokers and a ZooKeeper, in processes on this machine."""
