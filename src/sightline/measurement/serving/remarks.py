"""What to know before the figures of a measured load are believed."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from sightline.quantities import counted
from sightline.simulation.recorded import Records

LATE_S = 0.01
"""Lateness of sending from which a remark is due."""


def remarks_on(records: Records, *, counts: bool) -> Iterator[str]:
    """Yield what to know before the figures are believed: failures, other lengths than asked, lateness."""
    failed = [row for row in records if row["failure"]]
    if failed:
        reasons = ", ".join(
            f"{count} x {reason}" for reason, count in Counter(r["failure"] for r in failed).most_common()
        )
        first = next((row["detail"] for row in failed if row["detail"]), "")
        yield f"{len(failed)} of {len(records)} requests failed: {reasons}{f' ({first})' if first else ''}"
    done = [row for row in records if not row["failure"]]
    if not counts:
        yield "the server does not say how many tokens it processed; chunks are counted as tokens"
    other = [row["server_prompt_tokens"] - row["prompt_tokens"] for row in done if row["server_prompt_tokens"] >= 0]
    if any(other):
        unlike = np.array([difference for difference in other if difference])
        yield (
            f"the server processed {counted(unlike.size, 'prompt')} with other lengths than asked, by "
            f"{unlike.min():+d} to {unlike.max():+d} tokens"
        )
    short = [row for row in done if row["server_output_tokens"] != row["output_tokens"]]
    if short:
        answers = counted(len(short), "answer")
        yield f"the server gave {answers} of another length than asked: it does not follow ignore_eos"
    several = sum(max(row["server_output_tokens"] - len(row["chunk_s"]), 0) for row in done)
    if several:
        yield f"{counted(several, 'token')} came together with others in a chunk; times between them count as 0"
    late = np.array([row["sent_s"] - row["intended_s"] for row in records])
    if late.size and (worst := float(np.percentile(late, 99))) > LATE_S:
        yield f"1 % of the requests were sent over {worst * 1e3:.0f} ms late: is this machine busy?"
