"""`kafkawire demo`: the main job in one run."""
