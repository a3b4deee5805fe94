"""Cost constants fitted to measured operators, ours or published, and written as catalog entries."""
