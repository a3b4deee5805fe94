"""Prompts in, tokens out: prefill, then token by token with a cache of keys and values, each pass read by a clock."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from sightline.measurement.generation_ways import Way
from sightline.measurement.module_clocks import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

Phase = Callable[[str], AbstractContextManager[None]]
"""What a pass is marked with: ``with phase("prefill"):``."""


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
        """Answer once: the tokens (sequences x output tokens), and the seconds of each pass where a ``reader`` is given.

        The first pass is the prefill, every other yields one token per sequence.
        """
        import torch

        with torch.inference_mode(), _attention(self._way, self.prompts.device.type):
            self.cache = self._empty_cache()
            read = (lambda: None) if reader is None else reader.read
            _wait_for(self.prompts.device)
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


@contextmanager
def _attention(way: Way, kind: str) -> "Iterator[None]":
    """Fused kernels where the way has them; a decode step's mask may leave a GPU only the plain one."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    fused = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH]
    with ExitStack() as around:
        if way.attention == "flash" and kind == "cuda":
            around.enter_context(sdpa_kernel(fused, set_priority=True))
        yield


def _wait_for(device: "torch.device") -> None:
    """What was asked of a device before does not count."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)
