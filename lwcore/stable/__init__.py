"""Symmetric α-stable laws, the model of gradient noise in Eq. (31), and fits of one to samples."""

from lwcore.stable.fits import GoodnessOfFit, StableFit, fit, goodness_of_fit
from lwcore.stable.law import SymmetricStable

__all__ = ["GoodnessOfFit", "StableFit", "SymmetricStable", "fit", "goodness_of_fit"]
