"""The engines that hand out records: C where the extension is built, or Python."""
