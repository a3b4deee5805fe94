"""The points of a study: devices and plans as arrays in few predictions, and the table of their results."""
