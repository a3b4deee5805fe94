"""Renderers of outlined answers, one for each medium: terminal, HTML, Markdown, notebook and CSV."""
