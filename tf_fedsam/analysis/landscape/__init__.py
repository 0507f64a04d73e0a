"""Loss surfaces around the solutions of runs: ``tf_fedsam.landscape([...])``.

view      what is looked at
compared  the runs, and whether they can be compared
examples  what the loss is the mean of
plane     directions, and the planes they span through solutions
points    which points of a plane are looked at
loss      the loss there
store     what is known already
survey    what is to be computed
pictures  contours, 3-D views, lines
drawing   figures, tables and numbers of what was computed
results   what is written, and an object to go on with
study     all of it
"""
