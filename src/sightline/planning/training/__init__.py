"""The search of training plans: candidates laid out as meshes, priced once per shape, added up block by block."""
