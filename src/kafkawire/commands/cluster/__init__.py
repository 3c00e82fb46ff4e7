"""`kafkawire cluster`: brokers in processes of this machine, with a ZooKeeper."""
