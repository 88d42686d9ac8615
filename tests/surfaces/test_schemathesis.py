"""Schemathesis asks a real gateway what its OpenAPI document allows, and what it does not."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.programs import outside
from tests.surfaces.conftest import serving

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "response_headers_conformance",
    "unsupported_method",
    "ignored_auth",
)
MORE = """
[http]
requests_per_minute = 0

[http.principals.all]
token = "all-token"
observe = true
approve = true
reveal = true
"""


@pytest.mark.behaviour("http.fuzz")
@pytest.mark.timeout(600)
async def test_schemathesis_finds_nothing(config: Callable[..., Path], tmp_path: Path) -> None:
    """No fault, no answer that is not in the document, and nothing wrong that is taken for right."""
    async with serving(config(MORE)) as url:
        process = await asyncio.create_subprocess_exec(
            outside("schemathesis"),
            "run",
            url.replace("/mcp", "/api/v1/openapi.json"),
            "--header=Authorization: Bearer all-token",
            f"--checks={','.join(CHECKS)}",
            "--phases=examples,coverage,fuzzing",
            "--max-examples=4",  # a number, and not a time, so that a slow machine tries all of it too
            "--seed=20",
            "--request-timeout=60",
            "--generation-database=none",
            "--exclude-path=/api/v1/events",  # it has no end
            "--exclude-path=/api/v1/logout",
            "--continue-on-failure",
            "--no-color",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=tmp_path,
        )
        told = (await process.communicate())[0].decode()

    tested = re.search(r"Tested: (\d+)", told)
    assert process.returncode == 0, told
    assert tested is not None
    assert int(tested[1]) >= 25, told
