"""Measures what PostgreSQL servers do with a case, one against the other: session.py is its API."""
