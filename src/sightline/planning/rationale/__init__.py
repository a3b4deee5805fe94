"""Why a plan is the best: what its obvious neighbours lose, what better hardware gives, and what would fit instead."""
