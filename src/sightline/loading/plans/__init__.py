"""``plan`` of training and of generation: its keys, its techniques, its defaults."""

from sightline.loading.plans.plan import ReadPlan, read_generation_plan, read_pools, read_training_plan
