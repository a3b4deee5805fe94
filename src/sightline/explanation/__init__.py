"""What profiles mean: two of them compared, row by row, noise told from change."""
