"""Answers as GitHub-flavored Markdown, for pull requests: the verdict, short tables, the scenario folded."""
