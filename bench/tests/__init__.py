"""Run by bench/check."""
