"""A replica of an engine: a model under a plan on its ranks, whatever batches it works on."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sightline.cost.collectives.families import cluster_collectives
from sightline.cost.collectives.groups import Group, data_group, tensor_group
from sightline.cost.device_model import Kernels, device_model
from sightline.cost.ranks import Ranks
from sightline.prediction.generation.passes import PricedPass, price_passes
from sightline.program import Batch, inference_kernels, write
from sightline.program.formats import Formats, formats_of, plain_dtype
from sightline.program.matmul_formats import HALF_SUMS
from sightline.scenario import Cluster, Device, GenerationPlan, GenerationScenario, Model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Worker:
    """A replica of an engine; of its scenario's workload only whether all tokens are the same counts."""

    scenario: GenerationScenario
    formats: Formats
    ranks: Ranks

    @property
    def plan(self) -> GenerationPlan:
        """How the engine runs the model."""
        return self.scenario.plan

    @property
    def model(self) -> Model:
        """What it runs."""
        return self.scenario.model

    def priced(self, batches: Sequence[Batch]) -> list[PricedPass]:
        """Write a pass of each batch out and price the operators of all together."""
        kernels = [inference_kernels(self.scenario, self.formats, batch) for batch in batches]
        programs = [write(x) for x in kernels]
        prices = price_passes(programs, self.ranks)
        return [PricedPass(kernels=x, program=of, prices=prices) for x, of in zip(kernels, programs, strict=True)]


def worker_of(scenario: GenerationScenario) -> Worker:
    """Return the replica that answers a scenario."""
    plan, engine, cluster = scenario.plan, scenario.plan.engine, scenario.cluster
    kernels = Kernels(
        stream_generation=engine.kernels.stream_kernels,
        eager=engine.kernels.eager,
        dtype=plain_dtype(plan.dtype, cluster.device),
    )
    return Worker(
        scenario=scenario,
        formats=_formats(scenario.model, plan, cluster.device),
        ranks=Ranks(
            device_model=device_model(cluster.device, kernels),
            cluster=cluster,
            group=partial(_group, plan=plan, cluster=cluster),
            library=cluster_collectives(
                cluster,
                all_reduce=engine.all_reduce_library,
                whole_domain=engine.collectives.reduces_over_domain,
                block_bandwidth=engine.collectives.block_bandwidth,
            ),
        ),
    )


def _formats(model: Model, plan: GenerationPlan, device: Device) -> Formats:
    engine = plan.engine
    in_fp16 = engine.llama_cpp.sums_in_fp16 and plan.dtype == "fp16" and HALF_SUMS in device.peak_flops
    dtype = HALF_SUMS if in_fp16 else plan.dtype
    formats = formats_of(model, plan.quantization, dtype, device, whole_model=engine.kernels.quantizes_head)
    return formats.with_weight_bytes(engine.kernels.weight_bytes)


def _group(ranks: str, plan: GenerationPlan, cluster: Cluster) -> Group:
    """The ranks that take part in a collective of a pass."""
    if ranks == "tensor":
        return tensor_group(plan.tensor_parallel, cluster)
    return data_group(plan.tensor_parallel, plan.data_parallel, cluster)
