"""Controls on a recorded run: what must not change a window, what must leave none, and what it hangs on.

All are computed afresh from each sequence's numbers, which a run stores if its configuration says ``keep_numbers``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from lwcore.arguments import generator, integer_in, one_of, real_in, sequence_of
from lwcore.bounds import sample_complexity
from lwcore.calibration import binomial_interval
from lwcore.config import Config, DiagnosticSettings
from lwcore.inference import holm, infer, probes, significant
from lwcore.labelled import dataset_with
from lwcore.window import learnability_window


def invariances(results: xr.Dataset, rng: np.random.Generator, models: list[str] | None = None) -> pd.DataFrame:
    """Count the windows that stay as they are when the numbers are rescaled or permuted, or the grid of N is refined.

    The windows are those of all views, noises, readings, rules and definitions at the run's budgets, of the run's first seed.

    Args:
        results: A run that kept its numbers.
        rng: Source of the permutation.
        models: Some of its models; all if None.

    Returns:
        For each control: windows compared, and windows that changed.

    Raises:
        ValueError: If the run has not kept its numbers.
    """
    dataset_with("results", results, "rate", "lag", "model")
    generator("rng", rng)
    for model in [] if models is None else sequence_of("models", models):
        one_of("models", model, results.model.values.tolist())
    settings = _settings(results)
    budgets = settings.budgets
    refined = tuple(
        np.unique(np.geomspace(budgets[0], budgets[-1], 4 * len(budgets)).round().astype(int).tolist() + list(budgets)).tolist()
    )
    order = rng.permutation(_numbers(results).sizes["sequence"])
    controls: dict[str, tuple[Callable[[xr.Dataset], xr.Dataset], DiagnosticSettings]] = {
        "statistic × 1,000,000": (lambda numbers: _rescaled(numbers, 1e6), settings),
        "statistic ÷ 1,000,000": (lambda numbers: _rescaled(numbers, 1e-6), settings),
        "four times as many numbers N": (lambda numbers: numbers, settings.model_copy(update={"budgets": refined})),
        "sequences in another order": (lambda numbers: numbers.isel(sequence=order), settings),
    }
    chosen = results if models is None else results.sel(model=models)
    numbers = _numbers(chosen.isel(seed=0)).expand_dims(source=["error"])
    plain, counts = infer(numbers, settings).window, {}
    for name, (change, changed_settings) in controls.items():
        differs = infer(change(numbers), changed_settings).window.sel(budget=list(budgets)) != plain
        counts[name] = [differs.size, int(differs.sum())]
    return pd.DataFrame.from_dict(counts, orient="index", columns=["windows", "changed"]).rename_axis("control")


def nulls(results: xr.Dataset, rng: np.random.Generator, level: float = 0.05, draws: int = 8) -> pd.DataFrame:
    """Count the null controls without a window, where the chance of any false detection in a network and view is held at a level.

    Two nulls: independent noise in the place of the error, one draw a network; and the measured numbers with the sign of each sequence
    drawn at random, which keeps their tails and their dependence between lags and directions.

    Args:
        results: A run that kept its numbers.
        rng: Source of the signs.
        level: The level, in (0, 1).
        draws: Draws of signs for each network, at least 1.

    Returns:
        For each null and view: draws, draws without a window, and their share in percent with its 95 % Clopper–Pearson interval.

    Raises:
        ValueError: If the run has not kept its numbers, or an argument is out of range.
    """
    dataset_with("results", results, "signal", "signal_error", "view", "source")
    generator("rng", rng)
    real_in("level", level, "(0, 1)")
    integer_in("draws", draws, 1)
    statistic = _numbers(results).statistic.transpose("model", "seed", "probe", "lag", "sequence")
    count = statistic.sizes["sequence"]
    noise = results.sel(source="noise")
    t = (noise.signal / noise.signal_error.where(noise.signal_error > 0)).fillna(-np.inf).transpose("model", "seed", "probe", "lag")
    rows = []
    for view in dict.fromkeys(results.view.values):
        own = np.flatnonzero(results.view == view)
        found = holm(special.stdtr(count - 1, -t.values[:, :, own]), level).any((-1, -2))
        rows.append(("noise in the place of the error", view, found.size, int((~found).sum())))
        empty = 0
        for numbers in statistic.values[:, :, own].reshape(-1, len(own), statistic.sizes["lag"], count):
            for _ in range(draws):
                empty += not significant(numbers.astype(float) * rng.choice([-1.0, 1.0], count), level).any()
        rows.append(("signs of the sequences at random", view, found.size * draws, empty))
    table = (
        pd.DataFrame(rows, columns=["null", "view", "draws", "without a window"])
        .set_index(["null", "view"])
        .sort_index(level=0, sort_remaining=False)
    )
    table["% (95 % interval)"] = [_share(int(k), int(n)) for n, k in table.itertuples(index=False)]
    return table


def believed(results: xr.Dataset, n_sequences: int, error: float, view: str = "zeroth") -> xr.DataArray:
    """Say where every positive mean is believed and a window is seen although noise replaces the error, had ε been another.

    N(ℓ) is proportional to a power of the noise's ``1 − ε`` quantile, so that the recorded numbers give it for any ε.

    Args:
        results: A run with the null control ``source="noise"``.
        n_sequences: N at which windows are read.
        error: ε in (0, 0.5).
        view: One of its views.

    Returns:
        True where a lag has ``N(ℓ) ≤ N``, in the noise of the lag; over models, seeds, probes and the readings of `inference` but for
        ``"optimal"``.
    """
    dataset_with("results", results, "required", "alpha", "view", "source")
    integer_in("n_sequences", n_sequences, 1)
    real_in("error", error, "(0, 0.5)")
    chosen = probes(results, view).sel(source="noise", noise_definition="lag", rule="plug-in", drop=True)
    before = _settings(results).error
    found = []
    for reading, rate in (("mean", "mean"), ("variance", "mean"), ("paper_v2", "paper_v2"), ("letter_v2", "paper_v2")):
        alpha = xr.full_like(chosen.alpha, 2.0) if reading == "variance" else chosen.alpha.fillna(2.0)
        now, then = (xr.apply_ufunc(_quantile_power, alpha, one, rate, vectorize=True) for one in (error, before))
        found.append((chosen.required.sel(reading=reading) * now / then <= n_sequences).any("lag"))
    return xr.concat(found, "reading").transpose("model", "seed", "probe", "reading")


def _quantile_power(alpha: float, error: float, rate: str) -> float:
    """Give N(ℓ) for a mean as large as the scale."""
    return float(sample_complexity(1.0, 1.0, 1.0, alpha, error, rate))


def believed_by_chance(results: xr.Dataset, error: float, rng: np.random.Generator, draws: int = 200, view: str = "zeroth") -> xr.DataArray:
    """Count windows in measured numbers with the sign of every sequence drawn at random, where every positive mean is believed.

    N(ℓ) is that of the central limit theorem (reading ``"variance"``), and N the number of sequences measured.

    Args:
        results: A run that kept its numbers.
        error: ε in (0, 0.5).
        rng: Source of the signs.
        draws: Draws of signs for each network, at least 1.
        view: One of its views.

    Returns:
        Draws in which any lag is seen along any direction of the view, over models and seeds.

    Raises:
        ValueError: If the run has not kept its numbers, or an argument is out of range.
    """
    dataset_with("results", results, "view")
    generator("rng", rng)
    reach = -special.ndtri(real_in("error", error, "(0, 0.5)"))
    numbers = probes(_numbers(results), view).statistic.transpose("model", "seed", "probe", "lag", "sequence")
    count = numbers.sizes["sequence"]
    signs = rng.choice([-1.0, 1.0], (integer_in("draws", draws, 1), count))
    mean = numbers.values @ signs.T / count
    deviation = np.sqrt(((numbers.values**2).mean(-1)[..., None] - mean**2) * count / (count - 1))
    seen = mean * np.sqrt(count) >= reach * deviation
    return xr.DataArray((seen & (deviation > 0)).any((2, 3)).sum(-1), {d: numbers[d] for d in ("model", "seed")}, ("model", "seed"))


def other_directions(results: xr.Dataset, n_sequences: int) -> pd.DataFrame:
    """Compare the run's two random directions w: how much hangs on the draw?

    Args:
        results: A run with at least two directions.
        n_sequences: N at which windows are compared, one of its budgets.

    Returns:
        For each view along random directions and each noise: in how many networks both directions give the same window (supremum,
        tested), the median over networks of the larger window and of the smaller, in steps, and the median ratio of the larger N(ℓ) to
        the smaller over the lags that both detect.

    Raises:
        ValueError: If N is none of the run's budgets.
    """
    dataset_with("results", results, "window", "required", "view", "budget", "noise_definition")
    if integer_in("n_sequences", n_sequences, 1) not in results.budget:
        raise ValueError(f"n_sequences = {n_sequences}: must be one of {', '.join(map(str, results.budget.values))}.")
    chosen = results.sel(source="error", rule="tested", reading="variance")
    rows = []
    for view in ("zeroth", "first", "whole"):
        first, second = np.flatnonzero(results.view == view)[:2]
        for noise in results.noise_definition.values:
            one = chosen.sel(noise_definition=noise)
            windows = one.window.sel(budget=n_sequences, definition="supremum")
            pair = [windows.isel(probe=probe) for probe in (first, second)]
            ratio = abs(np.log(one.required.isel(probe=first)) - np.log(one.required.isel(probe=second))).values
            both = np.isfinite(ratio)
            rows.append(
                {
                    "view": view,
                    "noise": noise,
                    "same window": f"{int((pair[0] == pair[1]).sum())} of {pair[0].size}",
                    "larger window": float(np.maximum(*pair).median()),
                    "smaller window": float(np.minimum(*pair).median()),
                    "ratio of N(ℓ)": round(float(np.exp(np.median(ratio[both]))), 2) if both.any() else np.nan,
                }
            )
    return pd.DataFrame(rows).set_index(["view", "noise"])


def shuffled_lags(results: xr.Dataset, n_sequences: int, rng: np.random.Generator, draws: int = 50) -> pd.DataFrame:
    """Give every lag another lag's N(ℓ): does the window know the order of the lags?

    Args:
        results: A run.
        n_sequences: N at which windows are read.
        rng: Source of the permutations.
        draws: Number of permutations.

    Returns:
        For each view and definition of the window (tested, noise of the lag, f counted once): median window over networks and probes,
        median with shuffled lags, in steps, and the share of networks and probes in percent whose window is longer than the median of
        their own shuffled ones.
    """
    dataset_with("results", results, "required", "view", "lag", "definition")
    integer_in("n_sequences", n_sequences, 1)
    generator("rng", rng)
    lags = results.lag.values.tolist()
    orders = [rng.permutation(len(lags)) for _ in range(integer_in("draws", draws, 1))]
    chosen = results.sel(source="error", rule="tested", reading="variance", noise_definition="lag")
    rows = []
    for view in dict.fromkeys(results.view.values):
        needed = probes(chosen, view).required.transpose(..., "lag").values
        for definition in results.definition.values:
            real = learnability_window(lags, needed, [n_sequences], definition=definition)[..., 0]
            mixed = np.stack([learnability_window(lags, needed[..., o], [n_sequences], definition=definition)[..., 0] for o in orders])
            typical = np.median(mixed, axis=0)
            rows.append((view, definition, np.median(real), np.median(mixed), round(100 * float((real > typical).mean()))))
    columns = ["view", "definition", "window", "window, lags shuffled", "% longer than shuffled"]
    return pd.DataFrame(rows, columns=columns).set_index(["view", "definition"])


def _settings(results: xr.Dataset) -> DiagnosticSettings:
    """Read how the run was measured."""
    return Config.model_validate_json(results.attrs["configuration"]).diagnostics


def _numbers(results: xr.Dataset) -> xr.Dataset:
    """Take what `infer` reads, in double precision."""
    if "statistic" not in results:
        raise ValueError("results: this run has not kept its numbers; set keep_numbers in its diagnostics.")
    return results[["rate", "statistic", "projection"]].astype(float)


def _rescaled(numbers: xr.Dataset, factor: float) -> xr.Dataset:
    """Change the unit of the statistic and of the gradient."""
    return numbers.assign(statistic=factor * numbers.statistic, projection=factor * numbers.projection)


def _share(successes: int, trials: int) -> str:
    """Write a share in percent with its exact interval."""
    low, high = binomial_interval(successes, trials)
    return f"{100 * successes / trials:.1f} ({100 * low:.1f} to {100 * high:.1f})"
