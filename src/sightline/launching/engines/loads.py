"""The generation that an engine has to be started for so that it serves a load."""

from dataclasses import fields, replace

from sightline.scenario import Generate, GenerationScenario, ServingScenario
from sightline.simulation.load import Requests, load_of


def as_generation(scenario: ServingScenario, load: Requests | None = None) -> GenerationScenario:
    """Return the generation that an engine has to be started for: the longest request, as many as may run at once.

    Args:
        scenario: A load and the plan that serves it.
        load: All of its requests; without them they are read.
    """
    parts = list(load_of(scenario)) if load is None else [load]
    plan, engine = scenario.plan, scenario.plan.engine
    running = plan.max_sequences or min(sum(map(len, parts)), engine.serving.running_of())
    longest = max(int((part.prompt_tokens + part.output_tokens).max()) for part in parts)
    output = max(int(part.output_tokens.max()) for part in parts)
    work = Generate(
        batch=int(running * plan.data_parallel * plan.replicas), prompt_tokens=longest - output, output_tokens=output
    )
    stated = {field.name: getattr(scenario, field.name) for field in fields(scenario)}
    return GenerationScenario(**{**stated, "workload": work, "plan": replace(plan, max_sequences=running)})
