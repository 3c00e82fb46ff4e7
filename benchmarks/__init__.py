"""Measurements beside other libraries; see docs/benchmarks.md."""
