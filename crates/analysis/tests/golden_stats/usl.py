#!/usr/bin/env python3
"""Writes usl.json: curves, and the fits of SciPy's bounded curve_fit. Needs SciPy; the tests need only the JSON.

    python3 -m venv /tmp/scipy && /tmp/scipy/bin/pip install scipy && /tmp/scipy/bin/python usl.py > usl.json

The first two curves are published: Gunther's ray tracer on an SGI Origin 2000 (Guerrilla Capacity Planning, 2007, table 4.2)
and the SPARCcenter 2000 of SPEC SDM91. Both are data sets of the R package `usl`; the values in its documentation for the second
are in `published`.
"""

import json

import numpy as np
import scipy
from scipy.optimize import curve_fit


def usl(n, scale, sigma, kappa):
    return scale * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def fitted(loads, rates):
    loads, rates = np.asarray(loads, float), np.asarray(rates, float)
    best = None
    # From several starting points, because the bounds cause local minima.
    for sigma in (0.0, 0.01, 0.1, 0.5):
        for kappa in (0.0, 1e-5, 1e-3):
            start = [max(rates / loads), sigma, kappa]
            found, _ = curve_fit(usl, loads, rates, p0=start, bounds=([0, 0, 0], np.inf), x_scale=[start[0], 0.1, 1e-3],
                                 ftol=1e-15, xtol=1e-15, gtol=1e-15, max_nfev=100000)
            rest = float(np.sum((rates - usl(loads, *found)) ** 2))
            if best is None or rest < best[1]:
                best = (found, rest)
    found, rest = best
    r2 = 1 - rest / float(np.sum((rates - rates.mean()) ** 2))
    return {"lambda": found[0], "sigma": found[1], "kappa": found[2], "r2": r2, "residual": rest}


CURVES = [
    {"name": "ray tracer on an SGI Origin 2000",
     "loads": [1, 4, 8, 12, 16, 20, 24, 28, 32, 48, 64],
     "rates": [20, 78, 130, 170, 190, 200, 210, 230, 260, 280, 310]},
    {"name": "SPEC SDM91 on a SPARCcenter 2000",
     "loads": [1, 18, 36, 72, 108, 144, 216],
     "rates": [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2],
     "published": {"lambda": 89.9952330, "sigma": 0.0277285, "kappa": 0.0001044}},
]

random = np.random.default_rng(20261120)
doubling = [1, 2, 4, 8, 16, 32, 64]
for name, true, noise, repeats, loads in [
    ("contention alone", (1000, 0.05, 0), 0.02, 1, doubling),
    ("contention and coherency", (250, 0.02, 5e-4), 0.03, 1, doubling),
    ("three repeats", (12000, 0.1, 1e-3), 0.05, 3, doubling),
    ("linear", (800, 0, 0), 0.02, 3, doubling),
    ("retrograde", (500, 0.01, 2e-2), 0.03, 2, [1, 2, 4, 8, 16, 32, 64, 128, 256]),
    ("coherency alone", (90, 0, 1e-3), 0.01, 2, [1, 3, 5, 10, 20, 50, 100]),
    ("as few as possible", (60, 0.2, 1e-3), 0.02, 1, [1, 4, 16, 64]),
    ("no light load", (5000, 0.03, 1e-4), 0.02, 2, [16, 32, 64, 128, 256]),
    ("rates of millions", (2.5e6, 0.3, 0), 0.04, 3, doubling),
    ("very noisy", (100, 0.08, 2e-3), 0.2, 3, doubling),
]:
    all_loads = [load for load in loads for _ in range(repeats)]
    clean = usl(np.asarray(all_loads, float), *true)
    rates = [float(f"{rate:.6g}") for rate in clean * (1 + noise * random.standard_normal(len(clean)))]
    CURVES.append({"name": name, "loads": all_loads, "rates": rates})

for curve in CURVES:
    curve["scipy"] = fitted(curve["loads"], curve["rates"])
print(json.dumps({"scipy": scipy.__version__, "curves": CURVES}, indent=1))
