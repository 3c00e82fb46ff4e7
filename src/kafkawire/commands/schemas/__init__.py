"""`kafkawire codegen`: turn a Kafka release into schemas, and schemas into code and documentation."""
