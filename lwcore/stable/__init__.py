"""Symmetric α-stable laws and the estimation of their tail index, the model of gradient noise in
Eq. (31)."""

from lwcore.stable.fits import StableFit, fit
from lwcore.stable.goodness import GoodnessOfFit, goodness_of_fit
from lwcore.stable.law import SymmetricStable

__all__ = ["GoodnessOfFit", "StableFit", "SymmetricStable", "fit", "goodness_of_fit"]
