"""Tests of the benchmarks, which bench/check runs."""
