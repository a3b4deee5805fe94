"""What people ask of a search of plans: read, checked, searched and explained."""
