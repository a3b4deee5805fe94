"""What is known: models, devices, links, hosts, clusters, frameworks, calibrations and published results, with sources."""

from sightline.catalog.index import KINDS, VARIABLE, entry, names, shipped
