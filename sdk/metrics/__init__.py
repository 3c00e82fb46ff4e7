"""What a client counts: sensors, gauges, the catalogue of their names, and the text that Prometheus reads."""
