"""Apache Kafka's wire and storage formats from one set of declarative schemas."""

__all__ = ["__version__"]

__version__ = "0.1.0"
