"""What engines are asked for by a plan of generation: sizes of their servers, and what they have no option for."""

from collections.abc import Iterator

from sightline.launching.repositories import repository_of
from sightline.scenario import GenerationPlan, GenerationScenario


def pools(scenario: GenerationScenario) -> dict[str, GenerationPlan]:
    """Return the plan of the servers by role: prefill and decode where they are apart, else one without a name."""
    split = scenario.plan.disaggregate
    return {"": scenario.plan} if split is None else {"prefill": split.prefill, "decode": scenario.plan}


def size(plan: GenerationPlan) -> int:
    """Return the devices of one server."""
    return int(plan.tensor_parallel * plan.pipeline_parallel * plan.data_parallel)


def sequences(scenario: GenerationScenario, role: str, plan: GenerationPlan) -> int:
    """Return how many sequences a data-parallel rank of a server has in flight."""
    if role == "prefill" and scenario.plan.disaggregate is not None:
        return int(scenario.plan.disaggregate.prefill_batch)
    if plan.max_sequences is not None:
        return int(plan.max_sequences)
    return int(-(-scenario.workload.batch // (plan.data_parallel * plan.replicas)))


def longest(scenario: GenerationScenario) -> int:
    """Return the tokens of a sequence, prompt and output."""
    return int(scenario.workload.prompt_tokens + scenario.workload.output_tokens)


def block_tokens(plan: GenerationPlan) -> int | None:
    """Return the tokens of a cache block where they are not the engine's default, which kernels may round up."""
    return None if plan.kv_block_tokens == plan.engine.defaults.get("kv_block_tokens") else plan.kv_block_tokens


def budget(scenario: GenerationScenario, plan: GenerationPlan) -> int | None:
    """Return the tokens of an iteration: at least a whole sequence's where prompts are not cut; None for no limit."""
    stated = plan.max_batched_tokens
    if stated is None:
        return None
    return int(stated) if plan.chunked_prefill else max(int(stated), longest(scenario))


def budget_notes(scenario: GenerationScenario) -> Iterator[str]:
    """Yield where that is more than the plan's."""
    stated, written = scenario.plan.max_batched_tokens, budget(scenario, scenario.plan)
    if written != stated:
        yield f"plan.max_batched_tokens {stated}: written as {written}; whole prompts need as many as a sequence has"


def unwritten_notes(scenario: GenerationScenario, *keys: str) -> Iterator[str]:
    """Yield what an engine has no option for, where the plan differs from its default."""
    plan, engine = scenario.plan, scenario.plan.engine
    defaults = {"memory_fraction": engine.memory.memory_fraction, "prefix_cache": False, **engine.defaults}
    for key in keys:
        if getattr(plan, key) != defaults.get(key):
            yield f"plan.{key} {getattr(plan, key)}: {engine.name} has no option for it"


def operation_notes(scenario: GenerationScenario) -> Iterator[str]:
    """Yield what of a plan is up to whoever operates the servers, and no command that is written says."""
    plan, order = scenario.plan, scenario.plan.engine.serving.order
    if plan.scheduler not in ("", order):
        yield f"plan.scheduler {plan.scheduler}: not written; {plan.engine.name} starts with {order}"
    if plan.router != "round-robin":
        yield f"plan.router {plan.router}: not written; the router's own option chooses it"
    if plan.lora_adapters is not None:
        yield f"plan.lora_adapters {plan.lora_adapters.count}: not written; name the adapters' files to the servers"
    if plan.autoscale is not None:
        yield f"plan.autoscale: written are all {plan.replicas} replicas; an orchestrator starts and stops them"


def model_argument(scenario: GenerationScenario) -> tuple[str, tuple[str, ...]]:
    """Return what a command calls the scenario's model, and what to say where that is not known."""
    name = scenario.model.name
    repository = repository_of(name)
    if repository:
        return repository, ()
    called = name.replace(" ", "-") or "model"
    return called, (
        f"model: the catalog knows no Hugging Face repository of {called}; put a repository or a path there",
    )
