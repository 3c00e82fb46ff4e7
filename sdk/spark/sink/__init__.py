"""The writing half of the data source `kafkawire`: tasks send their rows, and the driver ends their transactions."""
