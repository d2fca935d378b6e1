"""LwM: attention of both networks for the teacher's class, and what it pulls at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.picture_streams import SIDE, SMALL, picture_stream, shorten

torch: Any = pytest.importorskip("torch")

from cbcl_study.rivals.deep.learner import frozen  # noqa: E402
from cbcl_study.rivals.deep.lwf import LwFMC  # noqa: E402
from cbcl_study.rivals.deep.lwm import LwM, attention, attention_distance  # noqa: E402
from cbcl_study.rivals.deep.networks import ResNet  # noqa: E402

torch.set_num_threads(1)

OLD, OUTPUTS = 3, 5


def network(seed: int) -> Any:
    options = {name: SMALL[name] for name in ("blocks", "widths")}
    made = ResNet(OUTPUTS, torch.Generator().manual_seed(seed), last_relu=False, **options)
    return made.eval()


def batch(n: int = 6) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(7)
    truth = torch.eye(OUTPUTS)[torch.randint(OLD, OUTPUTS, (n,), generator=generator)]
    return torch.randn(n, 3, SIDE, SIDE, generator=generator), truth


def loss(student: Any, teacher: Any, *, beta: float = 1.0, gamma: float = 1.0) -> Any:
    x, truth = batch()
    return LwM(beta=beta, gamma=gamma, **SMALL)._loss(student, teacher, x, truth, OLD)


def test_without_its_weights_it_is_lwf_mc() -> None:
    states = []
    for make, options in [(LwFMC, {}), (LwM, {"beta": 1.0, "gamma": 0.0}), (LwM, {"gamma": 1.0})]:
        learner = shorten(make(outputs=8, **options, **SMALL), epochs=1)
        for x, y in picture_stream():
            learner.partial_fit(x, y)
        states.append(learner.state())
    lwf, plain, attentive = states
    assert all(np.array_equal(lwf[name], plain[name]) for name in lwf)
    assert not np.array_equal(lwf["network.head.weight"], attentive["network.head.weight"])


def test_the_weights_of_maps_are_mean_gradients_of_the_score() -> None:
    student, (x, _) = network(0), batch()
    maps = student.maps(x).detach().requires_grad_()
    top = torch.tensor([0, 1, 2, 0, 1, 2])
    scores = student.head(maps.mean(dim=(2, 3)))
    (gradient,) = torch.autograd.grad(scores.gather(1, top[:, None]).sum(), maps)
    weights = gradient.mean(dim=(2, 3), keepdim=True)  # Grad-CAM's, each picture its own class
    expected = (weights * maps).sum(dim=1).relu().flatten(1) * maps[0, 0].numel()
    assert torch.allclose(attention(student, maps, top), expected, atol=1e-6)
    assert expected.count_nonzero() > 0


def test_each_picture_has_its_own_class() -> None:
    student, (x, _) = network(0), batch()
    maps, top = student.maps(x), torch.tensor([2, 0, 1, 1, 0, 2])
    together = attention(student, maps, top)
    for i in range(len(x)):
        alone = attention(student, maps[i : i + 1], top[i : i + 1])
        assert torch.allclose(together[i : i + 1], alone, atol=1e-6)


def test_attention_changes_the_students_gradient_and_gives_the_teacher_none() -> None:
    gradients = []
    for gamma in (0.0, 1.0):
        student, teacher = network(0), network(1)  # a teacher that could be trained
        loss(student, teacher, gamma=gamma).backward()
        gradients.append(student.kernels.grad)
        assert all(parameter.grad is None for parameter in teacher.parameters())
    without, with_attention = gradients
    assert not torch.allclose(without, with_attention, rtol=1e-3)


def test_the_heads_rows_have_no_gradient_by_attention() -> None:
    heads = []
    for gamma in (0.0, 1.0):
        student = network(0)
        loss(student, network(1), gamma=gamma).backward()
        heads.append(student.head.weight.grad)
    assert torch.equal(*heads)


def test_both_networks_are_asked_for_the_teachers_top_old_class() -> None:
    student, teacher, (x, _) = network(0), frozen(network(1)), batch()
    with torch.no_grad():  # what each would say for itself: a new class, and one old class
        teacher.head.bias -= teacher(x).mean(dim=0)  # old classes that differ between pictures
        teacher.head.bias[OLD:] += 99.0
        student.head.bias[0] += 99.0
        top = teacher(x)[:, :OLD].argmax(dim=1)
        q, old_q = (attention(each, each.maps(x), top) for each in (student, teacher))
        gap = loss(student, teacher, gamma=1.0) - loss(student, teacher, gamma=0.0)
    assert len({*top.tolist()}) > 1
    assert float(gap) * OUTPUTS == pytest.approx(float(attention_distance(q, old_q)), rel=1e-2)


def test_the_distance_is_the_l1_of_unit_vectors_a_picture() -> None:
    q, old_q = torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([[0.0, 9.0], [0.0, 5.0]])
    assert float(attention_distance(q, old_q)) == pytest.approx((0.6 + 0.2 + 0.0) / 2)


def test_attention_that_is_nowhere_has_a_finite_gradient() -> None:
    q = torch.zeros(2, 4, requires_grad=True)
    attention_distance(q, torch.ones(2, 4)).backward()
    assert torch.isfinite(q.grad).all()


def test_beta_weighs_the_old_outputs_alone() -> None:
    student, teacher, (x, truth) = network(0), frozen(network(1)), batch()
    with torch.no_grad():
        p, old = student(x).sigmoid(), teacher(x)[:, :OLD].sigmoid()
        targets = torch.cat([old, truth[:, OLD:]], dim=1)
        terms = -(targets * p.log() + (1.0 - targets) * (1.0 - p).log()).sum(dim=0) / len(x)
        total = loss(student, teacher, beta=3.0, gamma=0.0)
    expected = (terms[OLD:].sum() + 3.0 * terms[:OLD].sum()) / OUTPUTS
    assert float(total) == pytest.approx(float(expected), rel=1e-5)
