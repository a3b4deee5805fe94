"""The search for a better plan of a job as it is now, and what it found in sentences."""
