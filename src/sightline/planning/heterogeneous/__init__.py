"""Plans on clusters of heterogeneous devices: parts of a cluster, plans on several kinds of devices, and why."""
