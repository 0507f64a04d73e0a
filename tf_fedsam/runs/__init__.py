"""What a run is: its description, folder, loop, callbacks, resumption and results."""
