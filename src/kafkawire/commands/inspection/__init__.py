"""`kafkawire dump` and `kafkawire codegen explain`: show the bytes of files, frames and captures."""
