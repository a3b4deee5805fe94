"""A reproduced source as text, page, Markdown and CSV."""
