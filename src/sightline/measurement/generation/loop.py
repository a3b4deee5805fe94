"""How transformers may generate, and the loop: prefill, then token by token with a cache of keys and values."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sightline.measurement.machine.devices import wait_for
from sightline.measurement.machine.timing import Phase
from sightline.measurement.modules.readers import Reader
from sightline.measurement.operators.case import chosen
from sightline.measurement.processes.case import UnsupportedCaseError
from sightline.scenario import GenerationScenario

if TYPE_CHECKING:
    import torch

FRAMEWORKS = ("transformers", "reference")
"""Frameworks that a scenario may name: transformers itself, or none in particular."""
WEIGHTS = ("nf4", "int8")
"""Formats of weights that bitsandbytes has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of generating."""

    attention: Literal["flash", "eager"]
    cache: Literal["dynamic", "static"]
    """Keys and values grow with every token, or lie in room taken beforehand."""
    compiled: bool = False
    """Decode steps go through PyTorch's compiler; on a GPU as one captured graph."""


WAYS = {
    "dynamic": Way(attention="flash", cache="dynamic"),
    "static": Way(attention="flash", cache="static"),
    "compiled": Way(attention="flash", cache="static", compiled=True),
    "eager": Way(attention="eager", cache="dynamic"),
}
"""By the name that ``--implementation`` gives them; the first is what transformers does by default."""


def way_of(scenario: GenerationScenario, implementation: str | None) -> str:
    """Return the way's name: the one asked for, else compiled where the plan captures graphs.

    Raises:
        InputError: There is no such way.
        UnsupportedCaseError: The scenario asks for something that transformers is not measured with.
    """
    name = chosen("generation", implementation, tuple(WAYS))
    reasons = list(_unsupported(scenario))
    if reasons:
        raise UnsupportedCaseError("; ".join(reasons))
    captures = scenario.plan.cuda_graphs and scenario.plan.engine.name == "transformers"
    return "compiled" if implementation is None and captures else name


def weight_format(scenario: GenerationScenario) -> str:
    """Return what the weights of matmuls are kept in: none (the plan's dtype), nf4 or int8."""
    return next((word for word in scenario.plan.quantization or () if word in WEIGHTS), "none")


def _unsupported(scenario: GenerationScenario) -> Iterator[str]:
    plan, work = scenario.plan, scenario.workload
    if plan.engine.name not in FRAMEWORKS:
        yield f"plan.framework is '{plan.engine.name}'; generation is measured with: {', '.join(FRAMEWORKS)}"
    for degree in ("tensor_parallel", "pipeline_parallel", "data_parallel", "replicas"):
        if getattr(plan, degree) != 1:
            yield f"plan.{degree} is {getattr(plan, degree)}; generation is measured on one device: 1"
    for word in plan.quantization or ():
        if word not in WEIGHTS:
            yield f"plan.quantization is '{word}'; generation is measured with: none, {', '.join(WEIGHTS)}"
    if scenario.model.weights not in ("bf16", "fp16", "fp32") and plan.quantization is None:
        yield f"the model's weights are in {scenario.model.weights}; measured are: none, {', '.join(WEIGHTS)}"
    for name, is_asked in (
        ("workload.continuous", work.continuous),
        ("workload.prefix_tokens", bool(work.prefix_tokens)),
        ("workload.repeated_token", work.repeated_token),
        ("plan.speculative", plan.speculative is not None),
        ("plan.disaggregate", plan.disaggregate is not None),
        ("plan.chunked_prefill", plan.chunked_prefill),
    ):
        if is_asked:
            yield f"{name} is asked for; a static batch of whole prompts is what is measured"


class Generation:
    """A model that answers the same batch of prompts again and again, by the most likely token."""

    def __init__(self, model: Any, way: Way, prompts: "torch.Tensor", output_tokens: int) -> None:
        self.model, self._way = model, way
        self.prompts, self.output_tokens = prompts, output_tokens
        self._decode = _compiled(model, prompts.device.type) if way.compiled else model
        self.cache: Any = None

    def run(
        self, reader: Reader | None = None, phase: Phase = lambda _: nullcontext()
    ) -> "tuple[torch.Tensor, list[float]]":
        """Answer once: the tokens (sequences x output tokens), and the seconds of each pass if there is a ``reader``.

        The first pass is the prefill, every other yields one token per sequence.
        """
        import torch

        with torch.inference_mode(), _attention(self._way, self.prompts.device.type):
            self.cache = self._empty_cache()
            read = (lambda: None) if reader is None else reader.read
            wait_for(self.prompts.device.type)
            readings = [read()]
            with phase("prefill"):
                token = self._pass(self.model, self.prompts)
            readings.append(read())
            tokens = [token]
            for _ in range(self.output_tokens - 1):
                with phase("decode"):
                    token = self._pass(self._decode, token)
                readings.append(read())
                tokens.append(token)
            seconds = [] if reader is None else list(reader.differences(readings))
            return torch.cat(tokens, dim=1), seconds

    def _pass(self, model: Any, tokens: "torch.Tensor") -> "torch.Tensor":
        """One pass over new tokens; the head sees the last one of each sequence alone."""
        import torch

        if self._way.compiled:
            begin_step: Any = torch.compiler.cudagraph_mark_step_begin
            begin_step()
        out = model(input_ids=tokens, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        chosen: torch.Tensor = out.logits[:, -1].argmax(dim=-1, keepdim=True)
        # A captured graph writes the next logits where these lie.
        return chosen.clone() if self._way.compiled else chosen

    def _empty_cache(self) -> Any:
        from transformers import DynamicCache, StaticCache

        if self._way.cache == "dynamic":
            return DynamicCache(config=self.model.config)
        if self.cache is None:
            length = self.prompts.shape[1] + self.output_tokens
            return StaticCache(config=self.model.config, max_cache_len=length)
        self.cache.reset()
        return self.cache


def cached_bytes(cache: Any) -> float:
    """Return what a cache holds."""
    held = [t for layer in cache.layers for t in (layer.keys, layer.values) if t is not None]
    return float(sum(t.numel() * t.element_size() for t in held))


def random_prompts(vocab_size: int, batch: int, tokens: int, device: str, seed: int) -> "torch.Tensor":
    """Return a batch of random token strings (sequences x tokens)."""
    import torch

    random = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocab_size, (batch, tokens), generator=random).to(device)


def _compiled(model: Any, kind: str) -> Any:
    import torch

    compiled: Any = torch.compile(model, mode="reduce-overhead" if kind == "cuda" else "default", dynamic=False)
    return compiled


def _attention(way: Way, kind: str) -> AbstractContextManager[None]:
    """Fused kernels where the way has them; a decode step's mask may leave a GPU only the plain one."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    fused = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH]
    return sdpa_kernel(fused, set_priority=True) if way.attention == "flash" and kind == "cuda" else nullcontext()
