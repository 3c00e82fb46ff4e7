"""`kafkawire pipeline`: stored topics in Spark, and the Spark session that commands share."""
