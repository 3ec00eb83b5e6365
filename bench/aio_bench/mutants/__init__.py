"""Bugs seeded into the server and into the extension, and which tests notice them."""
