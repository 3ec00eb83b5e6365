"""Draws traces of I/Os: trace.py reads them, panels.py says what is drawn, draw.py writes files."""
