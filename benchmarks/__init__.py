"""Benchmarks against other libraries; see docs/benchmarks.md."""
