"""Generation with transformers."""
