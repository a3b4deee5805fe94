"""``cluster``: devices, links, networks and hosts of the catalog, of a mapping, or of this machine."""

from sightline.loading.clusters.cluster import forgotten_units, made_of_technology, read_as, read_cluster, read_device

__all__ = ["forgotten_units", "made_of_technology", "read_as", "read_cluster", "read_device"]
