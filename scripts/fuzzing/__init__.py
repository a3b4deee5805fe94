"""Wrong inputs for every reader, made of right ones by seeded mutations, and what runs them under limits."""
