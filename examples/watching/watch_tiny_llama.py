"""A tiny Llama trains while Sightline watches: ``python examples/watching/watch_tiny_llama.py``.

After a third of the steps its samples become twice as long. The watch says so, and searches which plan is better now.
"""

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import sightline as sl

SIZES = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 352,
    "vocab_size": 1024,
}
SEQUENCE_LENGTH, GLOBAL_BATCH, MICRO_BATCH = 64, 8, 2
SCENARIO = {
    "name": "Tiny Llama, watched",
    "model": {"model_type": "llama", **SIZES},
    "cluster": "this-machine",
    "workload": {"task": "pretrain", "sequence_length": SEQUENCE_LENGTH, "global_batch": GLOBAL_BATCH},
    "plan": {"framework": "transformers", "micro_batch": MICRO_BATCH, "dtype": "fp32"},
}


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--store", help="folder of the store of runs (default: your own)")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = LlamaForCausalLM(LlamaConfig(**SIZES)).train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    with sl.watch(SCENARIO, store=arguments.store) as watch:
        for step in range(arguments.steps):
            length = SEQUENCE_LENGTH if step < arguments.steps // 3 else 2 * SEQUENCE_LENGTH
            for _ in range(GLOBAL_BATCH // MICRO_BATCH):
                rows = torch.randint(0, SIZES["vocab_size"], (MICRO_BATCH, length))
                loss = model(input_ids=rows, labels=rows).loss * MICRO_BATCH / GLOBAL_BATCH
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            watch.step(tokens=GLOBAL_BATCH * length, sequence_length=length, loss=loss * GLOBAL_BATCH / MICRO_BATCH)


if __name__ == "__main__":
    main()
