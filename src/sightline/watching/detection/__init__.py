"""When a job departs from what is expected of it, and by which cause."""
