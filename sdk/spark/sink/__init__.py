"""The writing half of the data source `kafkawire`: tasks send rows, and the driver ends the tasks' transactions."""
