"""What ``launch.bench`` measures: a file a kind of table, and what they share."""
