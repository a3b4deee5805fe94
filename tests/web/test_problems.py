"""What is wrong is told in one form, whatever was asked and whichever error it was."""

import pytest

from sightline.errors import InputError, SightlineError, WorkError
from sightline.web.security import as_json

ADDRESSES = [
    "/api/v1/nothing",
    "/api/v1/jobs/0",
    "/predict/answer.json?model=lama&cluster=1x+h100-sxm-80gb",
    "/predict/better?plan.dtype=[",
    "/serve/answer.json?model=llama-3.1-8b&cluster=1x+h100-sxm-80gb",
    "/serve/requests.csv?model=lama&cluster=1x+h100-sxm-80gb",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_answer_has_the_first_sentence_and_all_of_them(client, address):
    answer = client.get(address)
    assert answer.status_code in (404, 422)
    found = answer.json()
    assert found.keys() == {"error", "problems"}
    assert found["error"] == found["problems"][0] != ""


def test_a_refused_request_is_told_likewise(client):
    answer = client.post("/plan/start", headers={"origin": "http://elsewhere.example"})
    assert answer.status_code == 403
    assert answer.json()["problems"] == [answer.json()["error"]]


@pytest.mark.parametrize("error", [SightlineError("one"), WorkError("one"), InputError("one"), InputError(["one"])])
def test_every_error_on_purpose_has_its_sentences(error):
    assert error.problems == ("one",)
    assert str(error) == "one"


def test_half_a_character_of_a_request_can_be_repeated():
    assert as_json("model is '\ud800'").decode().count("?") == 2
