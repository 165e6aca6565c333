"""The operator's prices for CPU and memory.  They are for estimates only; nothing is billed."""

from __future__ import annotations

from pydantic import BaseModel
from starlette.responses import Response

from cloche.doors.http.dependencies import Json, TheService
from cloche.doors.http.problems import ERROR_RESPONSES
from cloche.doors.routing.routes import Operations

operations = Operations(responses=ERROR_RESPONSES, tag="server")


class RatesAnswer(BaseModel):
    """The prices that the operator has set; 0 means free."""

    cpu_hour: float
    memory_gb_hour: float
    currency: str


@operations.get("/v1/rates", scope="read", name="get_rates", responses={200: {"model": RatesAnswer}})
async def rates(service: TheService) -> Response:
    """Get the price of an hour of CPU time and of a GB of memory for an hour."""
    settings = service.configuration
    answer = {
        "cpu_hour": settings.rate_cpu_hour,
        "memory_gb_hour": settings.rate_memory_gb_hour,
        "currency": settings.currency,
    }
    return Json(answer)
