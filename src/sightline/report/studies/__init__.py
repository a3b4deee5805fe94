"""What people read of a study: its table in the terminal, its page, its lines as CSV."""
