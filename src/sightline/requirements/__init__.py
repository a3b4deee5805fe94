"""What somebody requires of an answer before a job starts, and whether a prediction meets it."""
