"""`kafkawire pipeline`: stored topics in Spark, and the session of Spark that commands share."""
