"""Rate limits: requests of one address in a second, and of all at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_address
from math import ceil
from time import monotonic

from cbcl.web.errors import RequestRefused

PICTURE_REQUESTS = {"/api/recognize", "/api/recognize-many", "/api/examples"}
RATE, BURST = 30.0, 60.0  # picture requests of one address, a second and at once
WRONG_RATE, WRONG_BURST = 1 / 3, 20.0  # wrong tokens, likewise
ADDRESSES = 4096  # remembered
AT_ONCE = 256  # requests


def is_loopback(address: str) -> bool:
    """Whether an address, or a name, is this very machine's."""
    name = address.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        found = ip_address(name.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)


class RateLimiter:
    """For each address so many at once, and so many more a second."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # and when that was

    def take(self, address: str, message: str) -> None:
        """One more for this address, or a refusal with the time to wait."""
        now = self._clock()
        left, then = self._left.pop(address, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        self._left[address] = (left - 1.0 if left >= 1.0 else left, now)
        while len(self._left) > ADDRESSES:
            self._left.popitem(last=False)
        if left < 1.0:
            wait = ceil((1.0 - left) / self._rate)
            raise RequestRefused("rate", f"{message}: try again in {wait} s.", retry_after=wait)
