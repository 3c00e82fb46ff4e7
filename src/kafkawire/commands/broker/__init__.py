"""`kafkawire broker`: the reference broker in this process."""
