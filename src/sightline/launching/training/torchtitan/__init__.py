"""torchtitan: a plan as its TOML file and command, and such a file read back."""
