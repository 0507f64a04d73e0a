"""Command lines: each module is a launcher, ``start`` is what they begin with."""
