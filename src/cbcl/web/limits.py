"""Limits: what each route takes, and from whom; requests in a second; so much at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from time import monotonic
from typing import Any, Literal, TypeVar

from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from cbcl.web.errors import ApiError

MB = 1_000_000
MAX_PICTURES = 100  # of a request
MAX_PICTURE_BYTES = 25 * MB
MAX_TEXT_BYTES = 64_000  # of a body without files
MAX_PICTURES_BYTES = 64 * MB  # of a body with any number of pictures
MAX_MEMORY_BYTES = 1000 * MB
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
MAX_ADDRESSES = 4096
MAX_SHARE = 0.75  # of a capacity, for one address: something is left for others


Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True)
class RouteLimits:
    """Bounds on what a route takes, and from whom: declared in the line below its address."""

    role: Literal["anyone", "view", "full"] = "full"  # the least that is let in
    body: int = MAX_TEXT_BYTES
    pictures: bool = False  # its requests have the rate of pictures
    on_disk: bool = False  # its body is written to disk, and not held in RAM
    lasts: bool = False  # its answer is an event stream, which takes no request's place

    def __call__(self, endpoint: Endpoint) -> Endpoint:
        DECLARED[endpoint] = self
        return endpoint


DECLARED: dict[Callable[..., Any], RouteLimits] = {}  # by the function of a route
STRICTEST = RouteLimits()


class RouteTable:
    """The limits of all routes; what no route has declared has the strictest."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._routes = [route for route in routes if isinstance(route, Route)]

    def find(self, scope: Scope) -> RouteLimits:
        """Return the limits of a request; one that changes nothing has those of reading."""
        method = "GET" if scope["method"] in SAFE_METHODS else scope["method"]
        for route in self._routes:
            if method in (route.methods or ()) and route.path_regex.match(scope["path"]):
                return DECLARED.get(route.endpoint, STRICTEST)
        return STRICTEST


class RateLimiter:
    """Token bucket for each address: `burst` requests at once, `rate` more a second."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # left, at which time

    def take(self, address: str, message: str) -> None:
        """Count a request of an address, or raise an error with the time to wait."""
        now = monotonic()
        left, then = self._buckets.pop(address, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        self._buckets[address] = (left - 1.0 if left >= 1.0 else left, now)
        while len(self._buckets) > MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        if left < 1.0:
            wait = ceil((1.0 - left) / self._rate)
            raise ApiError("rate", f"{message}: try again in {wait} s.", retry_after=wait)


class Capacity:
    """So much at a time, of which one address has at most three quarters.

    It is taken before anything is awaited, so that those who come at once are counted, too.
    """

    def __init__(self, limit: int, problem: str, *, retry_after: int) -> None:
        self._limit, self._problem, self._retry_after = limit, problem, retry_after
        self._by_address: dict[str, int] = {}
        self.taken = 0

    def share(self, address: str) -> float:
        """Return the part of all there is that an address has taken."""
        return self._by_address.get(address, 0) / self._limit

    def take(self, address: str, amount: int = 1) -> None:
        """Take some until it is given back, or raise an error with the time to wait."""
        own = self._by_address.get(address, 0) + amount
        if own > self._limit * MAX_SHARE or self.taken + amount > self._limit:
            message = f"{self._problem}: try again in {self._retry_after} s."
            raise ApiError("busy", message, retry_after=self._retry_after)
        self._by_address[address] = own
        self.taken += amount

    def give_back(self, address: str, amount: int = 1) -> None:
        left = self._by_address.pop(address, 0) - amount
        if left:
            self._by_address[address] = left
        self.taken -= amount

    @contextmanager
    def reserve(self, address: str) -> Iterator[None]:
        """Take a place until the end of the block."""
        self.take(address)
        try:
            yield
        finally:
            self.give_back(address)
