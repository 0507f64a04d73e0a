"""Readers of the files that publishers of data sets distribute, and of a user's own image folders.

NumPy, the standard library and Pillow only. Every reader treats its input as hostile: sizes are
checked before memory is taken, archives are read in place and never extracted, nothing stored in a
file is ever executed, and whatever is wrong ends in an `InputError` that names the file. A reader
returns everything or raises; it never returns part of a data set.
"""
