"""What the operator says that CPU and memory cost: for estimates, nobody is billed."""

from __future__ import annotations

from pydantic import BaseModel
from starlette.responses import Response

from cloche.doors.http.dependencies import Json, TheService
from cloche.doors.http.problems import ERROR_RESPONSES
from cloche.doors.routing.routes import Operations

operations = Operations(responses=ERROR_RESPONSES, tag="server")


class RatesAnswer(BaseModel):
    """Prices, as the operator has set them; 0 is free."""

    cpu_hour: float
    memory_gb_hour: float
    currency: str


@operations.get("/v1/rates", scope="read", responses={200: {"model": RatesAnswer}})
async def rates(service: TheService) -> Response:
    """What an hour of CPU time and of a GB of memory cost."""
    settings = service.configuration
    told = {
        "cpu_hour": settings.rate_cpu_hour,
        "memory_gb_hour": settings.rate_memory_gb_hour,
        "currency": settings.currency,
    }
    return Json(told)
