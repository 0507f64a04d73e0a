"""Runs compared on a page, in a table, in a figure.

compare             the public door: ``tf_fedsam.compare(...)`` gives a Comparison
sections            what is on the page: a section each problem
page                the page as a whole, HTML that needs nothing but itself
main_table, tables  its tables
figures, curves     its drawn parts; drawing makes the SVG, measures says what is drawn
cells, style        what tables are made of; how the page looks
exports             the comparison as rows, CSV, LaTeX and text
plot                curves as a matplotlib figure
printed             figures for papers, with their data
pictures, surfaces  loss surfaces that are put into the page, or drawn again
"""
