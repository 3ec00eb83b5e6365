"""Draws traces of I/Os.  trace.py reads them, panels.py decides what is drawn, picture.py draws it, export.py writes it for Perfetto."""
