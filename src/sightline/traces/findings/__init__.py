"""What is remarkable in a step: slow collectives, uneven steps, small products."""
