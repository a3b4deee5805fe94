"""Technology nodes: devices of every node and memory, the best of them at every point, and what a node gains."""
