"""Collectives on a hierarchy of links: groups, fabrics, libraries and their constants."""
