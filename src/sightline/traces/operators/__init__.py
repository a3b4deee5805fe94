"""What a kernel is: its operator, its module, its phase, and what recorded shapes tell of it."""
