"""Sources reproduced: their numbered findings and their tables, predicted and judged by criteria."""
