"""Predictions of generation at a site that measurements are of."""

from generation_scenarios import generation

from sightline.prediction.generation.batch_profile import predict_generation
from sightline.prediction.generation.sites import MeasuredSite


def test_a_prompt_alone_has_no_time_per_further_token_at_any_site() -> None:
    asked = generation(model="llama-3.1-8b", cluster="1x h100-sxm-80gb", output_tokens=1, plan={"framework": "vllm"})
    found = predict_generation(asked, known=MeasuredSite(name="a site that nobody measured"))
    assert found.tpot_s is None
    assert found.ttft_s == predict_generation(asked).ttft_s
