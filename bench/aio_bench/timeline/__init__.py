"""Draws traces of I/Os.  trace.py reads them, panels.py decides what is drawn, draw.py writes files."""
