"""What techniques change in a program, one module each; at degree 1 or "none" a technique changes nothing."""
