"""The findings and tables of arXiv 2311.03687."""
