"""What is known: models, devices, links, hosts, clusters, technologies, frameworks, calibrations, published results."""

from sightline.catalog.index import KINDS, VARIABLE, entry, kind_of, name_of, names, newest, said_of, shipped, singular

__all__ = ["KINDS", "VARIABLE", "entry", "kind_of", "name_of", "names", "newest", "said_of", "shipped", "singular"]
