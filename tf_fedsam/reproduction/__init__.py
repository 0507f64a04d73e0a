"""The papers' tables: what they print, how to run them here, and both side by side."""
