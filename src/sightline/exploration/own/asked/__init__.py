"""What a study asks for: its file, the axes over its base, and the results that it reports."""
