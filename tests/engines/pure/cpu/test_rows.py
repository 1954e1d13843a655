"""Adam on the rows that a step touches, and on everything else."""

from __future__ import annotations

import numpy as np

from engines.pure.cpu.reference import (
    F64,
    discriminator_loss,
    doubles,
    engine,
    numeric_gradient,
    random_batch,
    settings_of,
)


def test_updates_follow_both_adams() -> None:
    s = settings_of("gmf", generators="item")
    e = engine(s)
    moments: dict[str, tuple[F64, F64]] = {}
    for t in range(1, 4):
        b = random_batch(s, t)
        p = doubles(e.parameters())
        own = [name for name in p if "gen" not in name]
        gradients = numeric_gradient(discriminator_loss, p, own, s, b)
        e.step_discriminator(b, learning_rate=0.05)
        for name in own:
            m, v = moments.get(name, (np.zeros_like(p[name]), np.zeros_like(p[name])))
            touched = np.ones(len(m), dtype=bool)
            if name in ("user", "item"):
                touched[:] = False
                touched[np.concatenate([getattr(b, f"pos_{name}"), getattr(b, f"unl_{name}")])] = True
            m[touched] += (1 - s.beta1) * (gradients[name] - m)[touched]
            v[touched] += (1 - s.beta2) * (gradients[name] ** 2 - v)[touched]
            moments[name] = m, v
            corrections = np.sqrt(1 - s.beta2**t) / (1 - s.beta1**t)
            expected = p[name] - 0.05 * corrections * m / (np.sqrt(v) + 1e-12) * touched.reshape(
                -1, *[1] * (m.ndim - 1)
            )
            found = e.parameters()[name]
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-4, err_msg=name)
            assert np.array_equal(found[~touched], p[name][~touched].astype(np.float32))
