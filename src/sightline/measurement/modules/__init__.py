"""A step taken apart by phase, module and operator."""
