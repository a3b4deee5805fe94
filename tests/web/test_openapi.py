"""The interface for programs does what its OpenAPI document says, whatever it is asked."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

pytestmark = pytest.mark.slow
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
PATHS = {
    *("POST /predict", "POST /explain", "POST /plan", "POST /simulate", "POST /explore"),
    *("GET /jobs/{identifier}", "DELETE /jobs/{identifier}", "GET /jobs/{identifier}/events"),
}
EXAMPLES = 15


@pytest.fixture(scope="module")
def operations(server):
    schema = schemathesis.openapi.from_url(f"{server}/api/v1/openapi.json")
    return {one.ok().label: one.ok() for one in schema.get_all_operations()}


def test_every_address_is_described(operations):
    assert {label.replace("/api/v1", "") for label in operations} == PATHS


# A path has no wrong values to be made up: everything is a text.
ASKED = [
    *((path, schemathesis.GenerationMode.POSITIVE) for path in sorted(PATHS)),
    *((path, schemathesis.GenerationMode.NEGATIVE) for path in sorted(PATHS) if path.startswith("POST")),
]


@pytest.mark.parametrize(("path", "mode"), ASKED)
def test_no_request_breaks_the_server(operations, path, mode):
    method, _, rest = path.partition(" ")
    operation = next(one for label, one in operations.items() if label in (path, f"{method} /api/v1{rest}"))
    codes = []

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
    )
    def asked(case):
        codes.append(case.call_and_validate(checks=CHECKS).status_code)

    asked()
    assert codes
    assert max(codes) < 500
