"""Shell scripts read, and shell commands written."""
