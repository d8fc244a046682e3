"""What PyTorch's losses take: targets in the shape of the predictions, or classes in that shape without the axis of classes."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

Loss = Callable[[Tensor, Tensor], Tensor]

_ELEMENTWISE = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCELoss, nn.BCEWithLogitsLoss)
_ELEMENTWISE_FUNCTIONS = (
    functional.mse_loss,
    functional.l1_loss,
    functional.smooth_l1_loss,
    functional.huber_loss,
    functional.binary_cross_entropy,
    functional.binary_cross_entropy_with_logits,
)
_CLASSES = (nn.CrossEntropyLoss, nn.NLLLoss)
_CLASSES_FUNCTIONS = (functional.cross_entropy, functional.nll_loss)


def check_shapes(loss: Loss, name: str, predictions: Tensor, targets: Tensor, hint: str = "") -> None:
    """Refuse predictions and targets that do not fit a loss of PyTorch; of other losses nothing is known.

    Args:
        loss: The loss.
        name: What it is called, for the message.
        predictions: What the network gives.
        targets: What it is held against.
        hint: What is often behind shapes that do not fit.

    Raises:
        ValueError: If they do not fit.
    """
    said = None
    if isinstance(loss, _ELEMENTWISE) or loss in _ELEMENTWISE_FUNCTIONS:
        said = _unlike(predictions, targets)
    if isinstance(loss, _CLASSES) or loss in _CLASSES_FUNCTIONS:
        said = no_classes(predictions, targets)
    if said:
        given = f"predictions {tuple(predictions.shape)} and targets {tuple(targets.shape)}"
        raise ValueError(f"loss ({name}) of {given}: {said}{'' if ' Here ' in said else hint}")


def _unlike(predictions: Tensor, targets: Tensor) -> str | None:
    """Say why numbers cannot be compared one by one: other shapes would broadcast, and mix sequences."""
    if predictions.shape == targets.shape:
        return None
    said = "they would be broadcast; must have the same shape."
    return said + f" Here targets.reshape{tuple(predictions.shape)} would do." * (predictions.numel() == targets.numel())


def no_classes(predictions: Tensor, targets: Tensor) -> str | None:
    """Say why targets are not the classes that predictions are held against.

    Args:
        predictions: Shape (B, K), or (B, K, T) for a class at every step.
        targets: Shape (B) or (B, T), integers; or probabilities in the shape of the predictions.

    Returns:
        What they must be; None if they are.
    """
    shape, found, integers = tuple(predictions.shape), tuple(targets.shape), not targets.is_floating_point()
    wanted = shape[:1] + shape[2:]
    if found == (wanted if integers else shape):
        return None
    said = f"targets must be classes, integers of shape {wanted}, or probabilities in the shape of the predictions."
    if [size for size in found if size > 1] == [size for size in wanted if size > 1]:
        said += f" Here targets{'' if found == wanted else f'.reshape{wanted}'}{'' if integers else '.long()'} would do."
    elif found == shape[:-1]:
        said += " Here predictions.movedim(-1, 1) would do, if classes are their last axis."
    return said
