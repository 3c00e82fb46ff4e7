"""`kafkawire pipeline`: analyse stored topics with Spark; and the Spark session that commands share."""
