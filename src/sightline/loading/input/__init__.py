"""Text, files and mappings as they come in: reading them, dotted keys, kinds of values, complaints."""
