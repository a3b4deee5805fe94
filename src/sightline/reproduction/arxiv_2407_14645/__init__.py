"""The findings and tables of arXiv 2407.14645."""
