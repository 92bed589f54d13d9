"""A tensor normal prior on the weights of a plain torch model.

Six related tasks, four classes, few labeled rows each. One linear layer per task is
trained by an ordinary loop, whose objective is the loss plus the negative log-density of
the weights under a prior. The tables compare priors by their accuracy on rows that no
training has seen, once where the tasks are related and once where they are not.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from multirel.tensor_normal import TensorNormal, fit_tensor_normal

TASKS, OUTPUTS, INPUTS = 6, 4, 20
TRAINING_ROWS, HELD_OUT_ROWS = 20, 500
START_CORRELATION = 0.3
STEPS = 100
REPETITIONS = 5


def prior_with(task_covariance: Tensor) -> TensorNormal:
    """Return a prior whose tasks are related and whose outputs and inputs are not."""
    return TensorNormal(
        torch.zeros(TASKS, OUTPUTS, INPUTS),
        [task_covariance, torch.eye(OUTPUTS), torch.eye(INPUTS)],
    )


def equal_correlations(correlation: float) -> Tensor:
    """Return a task covariance in which all pairs of tasks have the same correlation."""
    return (1 - correlation) * torch.eye(TASKS) + correlation * torch.ones(TASKS, TASKS)


def simulate(true_weights: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """Return rows x (T, N, I) and their labels y (T, N), drawn from a softmax model."""
    x = torch.randn(TASKS, n_rows, INPUTS)
    logits = torch.einsum("toi,tni->tno", true_weights, x)
    return x, torch.distributions.Categorical(logits=logits).sample()


def train(x: Tensor, y: Tensor, prior: TensorNormal | None = None) -> Tensor:
    """Return the weights (T, O, I) that are most probable given the rows, or fit them best."""
    weights = torch.zeros(TASKS, OUTPUTS, INPUTS, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = torch.einsum("toi,tni->tno", weights, x)
        objective = cross_entropy(logits.flatten(0, 1), y.flatten())
        if prior is not None:
            objective = objective - prior.log_prob(weights) / y.numel()
        objective.backward()
        optimizer.step()
    return weights.detach()


def estimate_task_covariance(weights: Tensor) -> Tensor:
    """Return the task covariance (trace T) of one stack of weights: one sample of order three."""
    # Shrinkage 1 holds the other two covariances at a multiple of the identity.
    fit = fit_tensor_normal(weights.unsqueeze(0), mean="zero", shrinkage=[0.1, 1.0, 1.0])
    return fit.distribution.covariances[0].dense()


def accuracy(weights: Tensor, x: Tensor, y: Tensor) -> float:
    """Return the share of rows whose class is predicted, averaged over the tasks."""
    predicted = torch.einsum("toi,tni->tno", weights, x).argmax(-1)
    return (predicted == y).float().mean().item()


def compare(correlation: float, seed: int) -> dict[str, float]:
    """Return the held-out accuracy under each prior, in one simulation of related tasks."""
    torch.manual_seed(seed)
    truth = prior_with(equal_correlations(correlation))
    true_weights = truth.sample()
    training = simulate(true_weights, TRAINING_ROWS)
    held_out = simulate(true_weights, HELD_OUT_ROWS)

    start = train(*training, prior_with(equal_correlations(START_CORRELATION)))
    learned = estimate_task_covariance(start)
    weights = {
        "no prior": train(*training),
        "independent tasks": train(*training, prior_with(torch.eye(TASKS))),
        "learned task covariance": train(*training, prior_with(learned)),
        "true task covariance": train(*training, truth),
    }
    return {name: accuracy(stack, *held_out) for name, stack in weights.items()}


def print_table(correlation: float) -> None:
    """Print the mean accuracy under each prior, and how much better than no prior it is."""
    results = [compare(correlation, seed) for seed in range(REPETITIONS)]
    print(f"Tasks with true correlation {correlation}")
    print(f"{'prior':<25}accuracy   gain over no prior")
    for name in results[0]:
        scores = torch.tensor([result[name] for result in results])
        gains = scores - torch.tensor([result["no prior"] for result in results])
        error = gains.std() / REPETITIONS**0.5
        gain = "" if name == "no prior" else f"{gains.mean():+.3f} ± {error:.3f}"
        print(f"{name:<25}{scores.mean():.3f}      {gain}".rstrip())


if __name__ == "__main__":
    torch.set_num_threads(1)  # more threads are slower on tensors this small
    print_table(correlation=0.8)
    print()
    print_table(correlation=0.0)
