"""The metrics of clients: sensors, gauges, the catalogue of their names, and the text format for Prometheus."""
