"""Measures cases on PostgreSQL servers, and compares two servers.  session.py is the API."""
