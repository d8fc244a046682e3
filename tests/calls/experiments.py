"""Good calls: Configurations, runs, measurements and figures."""

import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

from lwcore import experiment, figures, results, stats

QUICK = experiment.Config.named("smoke")
SMOKE = QUICK.but(models=["ConstGate"], seeds=[1], training={"steps": 1})
PLACE = Path(tempfile.gettempdir()) / "lwcore-call.nc"
DATA = xr.Dataset({"f": ("lag", [1.0])}, attrs={"fingerprint": "0" * 12})
results.save(DATA, PLACE)
NUMBERS = np.array([1.0, 2.0, 4.0])
RUN = experiment.run(QUICK, progress=False)
FIGURE, (AXES,) = figures.canvas(1)
LINE = xr.DataArray(np.ones((2, 3)), {"lag": [1, 2, 4]}, ("model", "lag"))

CALLS: list = [
    (experiment.run, {"config": SMOKE, "resume": True, "progress": False}),
    (experiment.run_member, {"config": SMOKE, "model": "ConstGate", "seed": 1}),
    (experiment.networks, {"config": SMOKE, "trained": False}),
    (experiment.fresh_sequences, {"config": SMOKE, "seed": 1, "n_sequences": 2}),
    (experiment.traces, {"config": SMOKE, "members": {}, "n_sequences": 2}),
    (results.load, {"path": PLACE}),
    (results.save, {"dataset": DATA, "path": PLACE}),
    (results.write_atomically, {"path": PLACE, "write": lambda part: results.save(DATA, part)}),
    (results.provenance, {"config": SMOKE}),
    (stats.bootstrap, {"statistic": lambda drawn: NUMBERS[drawn].mean(), "count": 3, "level": 0.9}),
    (stats.most_covered, {"count": 3}),
    (stats.student, {"values": NUMBERS, "level": 0.9}),
    (stats.binomial, {"hits": 1, "trials": 3, "level": 0.9}),
    (stats.holm, {"p": [0.1, 0.2], "level": 0.05}),
    (figures.panels, {"values": LINE, "x": "lag", "hue": None, "col": "model"}),
    (figures.canvas, {"count": 1, "width": 2.0, "height": 2.0, "rows": 1}),
    (figures.band, {"axes": AXES, "x": LINE.lag, "y": LINE}),
    (figures.model_band, {"axes": AXES, "x": LINE.lag, "y": LINE, "model": "LSTM"}),
    (figures.legend_above, {"figure": FIGURE, "axes": AXES}),
    (figures.narrowed, {"figure": FIGURE}),
    (figures.done, {"figure": FIGURE, "trim": False}),
    (figures.signed, {"figure": FIGURE, "results": RUN}),
    (figures.summary, {"results": RUN}),
    (figures.learned_lines, {"axes": AXES, "results": RUN}),
    (figures.window_lines, {"axes": AXES, "seen": RUN}),
    (stats.span, {"values": NUMBERS, "form": ".3g"}),
    (stats.summary, {"quantities": {"f": LINE}, "by": ("model",), "form": ".1f"}),
]
