"""`kafkawire cluster`: brokers and a ZooKeeper server, in processes on this machine."""
