"""Workers for a command: processes of this machine, or of dask or ray."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from socket import create_connection

import click

from cbcl.cli.options import import_extra
from cbcl.errors import WorkerError, reason

ALL = -1  # for joblib: as many jobs as there are workers
TIMEOUT = 10.0  # seconds to connect


@contextmanager
def start_workers(
    jobs: int | None, engine: str | None, address: str | None
) -> Iterator[int | None]:
    """Let joblib use the workers of an engine; yield their number for joblib, None: no workers."""
    if address is not None and engine not in ("dask", "ray"):
        raise click.UsageError("--address is that of a cluster: give --backend dask or ray, too.")
    if jobs is None and engine is None:
        yield None
        return
    from joblib import parallel_config

    n_jobs = jobs or ALL
    with ExitStack() as stack:
        try:
            if engine == "dask":
                _start_dask(stack, jobs, address)
            elif engine == "ray":
                _start_ray(stack, jobs, address)
        except (OSError, ValueError, RuntimeError) as error:
            subject = (
                f"the cluster of {engine} at {address}" if address else f"a cluster of {engine}"
            )
            advice = "give the address that it printed when it was started" if address else ""
            problem = f"cannot be reached ({reason(error)})"
            raise WorkerError(subject, problem, advice) from error
        stack.enter_context(parallel_config(backend=engine or "loky", n_jobs=n_jobs))
        yield n_jobs


def _start_dask(stack: ExitStack, jobs: int | None, address: str | None) -> None:
    client_of = import_extra("dask", "distributed", "--backend dask").Client
    if address is None:
        client = client_of(n_workers=jobs, threads_per_worker=1, dashboard_address=None)
    else:
        client = client_of(address, timeout=TIMEOUT)
    stack.enter_context(client)


def _start_ray(stack: ExitStack, jobs: int | None, address: str | None) -> None:
    ray = import_extra("ray", "ray", "--backend ray")
    local = {"num_cpus": jobs, "include_dashboard": False} if address is None else {}
    if address is not None and ":" in address:  # ray itself would try for minutes
        host, _, port = address.rpartition("//")[2].rpartition(":")
        create_connection((host, int(port)), TIMEOUT).close()
    ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **local)
    stack.callback(ray.shutdown)
    import_module("ray.util.joblib").register_ray()
