"""The kernels for a GPU compute what torch's own operations do.

Without a GPU, Triton's interpreter runs them, in a process of its own: it is chosen before import.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from cbcl_study.rivals.deep import fused, networks  # noqa: E402

BLOCKS, WIDTHS, SIDE = (1, 2), (16, 32), 8  # all kinds of blocks: plain, wider, plain again


def compare(last_relu: bool) -> dict[str, float]:
    """Return how far maps, gradients and moments are apart, each by its own size."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device).manual_seed(0)
    network = networks.ResNet(3, generator, blocks=BLOCKS, widths=WIDTHS, last_relu=last_relu)
    with torch.no_grad():
        network.scales.uniform_(0.5, 1.5, generator=generator)
        network.shifts.normal_(0.0, 0.3, generator=generator)
    x = torch.randn(5, 3, SIDE, SIDE, generator=generator, device=device)
    weights = torch.randn(5, WIDTHS[-1], SIDE // 2, SIDE // 2, generator=generator, device=device)
    results = []
    for compute in (by_torch, by_kernels):
        network.zero_grad()
        network.means.zero_()
        network.variances.fill_(1.0)
        network.train()
        maps = compute(network, x)
        (maps * weights).sum().backward()
        moments = torch.stack([network.means, network.variances])
        network.eval()
        with torch.no_grad():
            evaluated = compute(network, x)
        gradients = (network.kernels.grad, network.scales.grad, network.shifts.grad)
        results.append([maps.detach(), *(g.clone() for g in gradients), moments, evaluated])
    names = ("maps", "kernels", "scales", "shifts", "moments", "evaluated")
    pairs = zip(names, *results, strict=True)
    return {name: float((a - b).norm() / a.norm()) for name, a, b in pairs}


def by_torch(network: networks.ResNet, x: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "can_compute", lambda *_: False)
        return network.maps(x)


def by_kernels(network: networks.ResNet, x: Any) -> Any:
    return fused.maps(network, x, torch.float32)


@pytest.mark.parametrize("last_relu", [True, False])
def test_kernels_compute_maps_gradients_and_moments_as_torch_does(last_relu: bool) -> None:
    if torch.cuda.is_available():
        apart = compare(last_relu)
    else:
        code = f"import json, test_deep_fused as t; print(json.dumps(t.compare({last_relu})))"
        tests = Path(__file__).parent
        path = os.pathsep.join([str(tests), *sys.path])
        environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        apart = json.loads(done.stdout)
    assert set(apart) == {"maps", "kernels", "scales", "shifts", "moments", "evaluated"}
    assert max(apart.values()) < 1e-4, apart


def test_kernels_are_only_used_on_a_gpu_and_for_narrow_networks() -> None:
    generator = torch.Generator().manual_seed(0)
    network = networks.ResNet(3, generator, blocks=BLOCKS, widths=WIDTHS)
    assert not fused.can_compute(network.layers, torch.zeros(1, 3, SIDE, SIDE))
    wide = networks.ResNet(3, generator, blocks=(1,), widths=(128,))
    for device in ("cuda",) if torch.cuda.is_available() else ():
        assert fused.can_compute(network.layers, torch.zeros(1, 3, SIDE, SIDE, device=device))
        assert not fused.can_compute(wide.layers, torch.zeros(1, 3, SIDE, SIDE, device=device))
