"""Hardware as a variable: studies over devices, clusters and technology, of one's own and built-in ones."""
