"""What the settings of multilinear relationship networks mean, and what they learn."""

from collections.abc import Mapping

__all__ = ["ATTRIBUTES", "SETTINGS"]

SETTINGS: Mapping[str, str] = {
    "strength": "The multiplier λ of the prior.",
    "modes": 'Modes whose covariance is learned, of "task", "output" and "input"; the others are the '
    "identity.",
    "layers": 'Which layers of every task have the prior: "all"; "output", where the hidden layers are '
    'shared (MRN₈ of the paper); or "hidden". Linear models have one layer, the output.',
    "shrinkage": "Weight of the target in each covariance, from 0 to 1: one number, one per mode, or a "
    "mapping from mode to number. None means .1 for tasks and .95 for outputs and inputs; 1 switches a mode "
    "off.",
    "shrinkage_target": '"identity" or "constant-correlation".',
    "start": "Task correlation of the first fit: one number for all pairs, or a T × T matrix.",
    "n_updates": "How many times the covariances are estimated, each followed by another fit; 0 holds the "
    "start, None goes on until the weights no longer change.",
    "mean": 'What the weights are pulled to: "zero", "task-average", or "initial", their values before '
    "training, in networks.",
    "mean_strength": 'Weight of the average itself with mean="task-average".',
    "share_task_covariance": "Whether all layers of a network have one task covariance; linear models have "
    "one layer.",
    "scale": '"trace" (tr Σ = d), "determinant" (|Σ| = 1) or "free" (the paper\'s literal form).',
    "covariance_update": '"logdet" (the paper\'s), or "trace" (the square root of MTRL and MTFL).',
    "inverse": '"ridge", or "pseudo": directions off the span of the weights cost nothing.',
    "jitter": "Added to the eigenvalues of a covariance, relative to their mean; the ε of the paper with "
    'scale="free".',
    "rank": "Eigenvalues that are kept apart in each covariance, beside a multiple of the identity; None "
    'means all. "auto" keeps in linear models as many as there are, and in networks 64 for large modes.',
}
"""Settings that mean more here than elsewhere."""

ATTRIBUTES: Mapping[str, str] = {
    "task_covariance_": "Σ_T, (T, T), with NaN for tasks without labels; as all that follow, it is written "
    "out from the factors in `relations_` each time.",
    "task_correlation_": "The correlations between the tasks, (T, T).",
    "output_covariance_": "Σ_O, (C, C).",
    "output_correlation_": "The correlations between the outputs, (C, C).",
    "input_covariance_": "Σ_I, (F, F), of the features as they were standardized.",
    "input_correlation_": "The correlations between the features' weights, (F, F).",
    "relations_": "The covariances as factors.",
    "n_updates_": "How many covariance updates were made.",
    "objective_": "The objective at the end: with covariances that are held from the start, or that have a "
    "joint objective with the weights (all scales but the trace), the terms of the covariances belong to it.",
    "converged_": "Whether the gap of the last fit came down to `tolerance`, and with n_updates=None the "
    "weights settled.",
}
"""What is learned beside that which all estimators learn."""
