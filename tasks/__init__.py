"""Data sets, one file each; importing the package makes them known to the library by name."""

from tf_fedsam.runs import task

task.register("tasks.registry")
