"""`kafkawire dump` and `kafkawire codegen explain`: what the bytes of files, frames and captures are."""
