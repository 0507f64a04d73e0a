"""Sweeps: algorithms x data sets x settings x seeds, each cell a run in a process of its own."""
