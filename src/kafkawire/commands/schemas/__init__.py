"""`kafkawire codegen`: from a release of Kafka to schemas, from schemas to code and documentation."""
