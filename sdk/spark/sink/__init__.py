"""The writing half of the data source `kafkawire`: tasks send their rows, the driver ends their transactions."""
