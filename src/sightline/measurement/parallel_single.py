"""One process trains alone."""

from pathlib import Path

from sightline.measurement.training_models import build_model
from sightline.measurement.training_precision import precision_of
from sightline.measurement.training_steps import Trainer, own_optimizer, own_step
from sightline.scenario import Scenario


def single(scenario: Scenario, device: str, weights: Path | None) -> Trainer:
    """Return a trainer without any parallelism."""
    plan = scenario.plan
    model = build_model(scenario, device, weights)
    optimizer = own_optimizer(plan, model, precision_of(plan), device)
    if plan.compile:
        model.compile()
    return Trainer(model=model, step=own_step(plan, model, optimizer, device), optimizer=optimizer)
