"""What is known: models, devices, links, hosts, clusters, frameworks, calibrations, published results."""

from sightline.catalog.index import KINDS, VARIABLE, entry, name_of, names, said_of, shipped

__all__ = ["KINDS", "VARIABLE", "entry", "name_of", "names", "said_of", "shipped"]
