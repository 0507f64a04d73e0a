"""Runs compared: series of runs that differ only in their seed, side by side where that is fair.

A *group* is one problem: data, split, who takes part, model and number of rounds. A *series* is one
way to solve it: everything that decides a run but the seed. Numbers of different groups are never
put together. Runs of the same seed share split, cohorts and batches, so differences are taken seed
by seed.

finding, reading    folders that hold runs; a run that was read and found whole
decisive            which settings make a problem, and which a series
series, grouping    series and groups of runs, their labels, the baseline
statistics          mean and spread over seeds, differences of pairs with an interval
targets, curves     what it took to reach an accuracy; numbers of the log over rounds or costs
clients             accuracies on each client, confusion of classes, classes on clients
values, words       values of JSON files; numbers in words
"""
