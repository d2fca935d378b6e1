"""Rate limits: requests of one address in a second, and of all at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from math import ceil
from time import monotonic

from cbcl.web.errors import ApiError

LIMITED_PATHS = {  # which take pictures
    "/api/recognize",
    "/api/recognize-many",
    "/api/examples",
    "/api/negatives",
}
PICTURE_RATE, PICTURE_BURST = 30.0, 60.0  # their requests of one address, a second and at once
WRONG_TOKEN_RATE, WRONG_TOKEN_BURST = 1 / 3, 20.0
MAX_ADDRESSES = 4096
MAX_CONCURRENT_REQUESTS = 256


class RateLimiter:
    """Token bucket for each address: `burst` requests at once, `rate` more a second."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # left, at which time

    def take(self, address: str, message: str) -> None:
        """Count a request of an address, or raise an error with the time to wait."""
        now = self._clock()
        left, then = self._buckets.pop(address, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        self._buckets[address] = (left - 1.0 if left >= 1.0 else left, now)
        while len(self._buckets) > MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        if left < 1.0:
            wait = ceil((1.0 - left) / self._rate)
            raise ApiError("rate", f"{message}: try again in {wait} s.", retry_after=wait)
