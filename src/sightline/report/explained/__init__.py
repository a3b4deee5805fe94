"""Explanations as text for a terminal, as a page, as Markdown and as CSV."""
