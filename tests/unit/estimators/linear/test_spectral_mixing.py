import numpy as np

from multirel.estimators._linear._spectral_mixing import AndersonMixing


def iterate(function, point, n_steps, memory=8):
    mixing = AndersonMixing(point.size, memory=memory)
    for _ in range(n_steps):
        point = mixing.next_point(point, function(point))
    return point, mixing


def test_a_slow_linear_map_takes_few_steps():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    matrix = (basis * np.linspace(0.3, 0.999, 6)) @ basis.T
    fixed = rng.normal(size=6)
    point, mixing = iterate(lambda p: fixed + matrix @ (p - fixed), np.zeros(6), 12)
    np.testing.assert_allclose(point, fixed, atol=1e-8)
    assert mixing.shortest < 1e-6


def test_a_drift_that_never_ends_does_not_blow_up():
    point, _ = iterate(lambda p: p + 1.0, np.zeros(3), 50)
    assert (np.abs(point) < 1e6).all()


def test_a_map_with_kinks_converges():
    target = np.array([3.0, -2.0, 0.1])
    point, _ = iterate(
        lambda p: 0.5 * p + 0.5 * np.clip(target, -1, np.abs(p) + 1), np.ones(3), 200
    )
    np.testing.assert_allclose(point, np.clip(target, -1, np.abs(point) + 1), atol=1e-8)


def test_forgetting_starts_anew():
    mixing = AndersonMixing(2, memory=3)
    mixing.next_point(np.zeros(2), np.ones(2))
    mixing.forget()
    assert mixing.shortest == np.inf
    np.testing.assert_array_equal(mixing.next_point(np.ones(2), np.zeros(2)), np.zeros(2))
