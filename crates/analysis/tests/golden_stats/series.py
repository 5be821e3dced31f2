#!/usr/bin/env python3
"""Makes steady_state.json and change_points.json for the tests of `stats`: series, and the results of
other programs for them. Run it in this folder:

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install numpy==1.26.4 pymser==1.0.22 ruptures==1.1.10 \
        signal-processing-algorithms==2.1.6 && /tmp/golden/bin/python series.py
"""

import json
import pathlib

import numpy as np
import pymser
import ruptures
from signal_processing_algorithms.energy_statistics import energy_statistics

HERE = pathlib.Path(__file__).parent

# Annual flow of the Nile at Aswan, 1871 to 1970, 10^8 m³ (G. W. Cobb, "The problem of the Nile: conditional solution to a
# changepoint problem", Biometrika 65, 1978): it fell after 1898, when the dam was begun.
NILE = [
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140, 1100, 1210, 1150,
    1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969, 831, 726, 456, 824, 702, 1120, 1100,
    832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759, 781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846,
    812, 742, 801, 1040, 860, 874, 848, 890, 744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919,
    718, 714, 740,
]


def rounded(values):
    """With as many digits as a test needs."""
    return [round(float(value), 6) for value in values]


def autoregressive(random, length, phi):
    """AR(1) with mean 0 and variance 1."""
    values = [random.standard_normal()]
    for _ in range(length - 1):
        values.append(phi * values[-1] + np.sqrt(1 - phi**2) * random.standard_normal())
    return np.array(values)


def steady_state():
    """Series with a warm-up, and the place at which pyMSER's MSER-5 cuts it off."""
    random = np.random.default_rng(5)
    at = np.arange(300)
    series = {
        "exponential": 100 * (1 - 0.6 * np.exp(-at / 25)) + 3 * autoregressive(random, 300, 0.5),
        "step": np.where(at < 60, 50, 100) + 5 * autoregressive(random, 300, 0.0),
        "overshoot": 100 + 80 * np.exp(-at / 15) + 4 * autoregressive(random, 300, 0.8),
        "flat": 100 + 5 * autoregressive(random, 300, 0.0),
    }
    cases = []
    for name, values in series.items():
        values = np.array(rounded(values))
        # Relative to the mean: pyMSER computes in single precision.
        errors = pymser.calculate_MSEm(values / values.mean(), batch_size=5)
        # First half only: the last few batches are often equal by chance, and then pyMSER cuts off all others.
        cut = int(pymser.MSERm_index(errors[:31], batch_size=5))
        cases.append({"name": name, "series": list(values), "errors": rounded(1e6 * errors), "cut": cut})
    return cases


def change_points():
    """Series whose level shifts, the statistic at each split, and the change points by MongoDB's and by another program."""
    random = np.random.default_rng(8)
    noise = lambda length, spread: spread * random.standard_normal(length)
    series = {
        "nile": (NILE, 1),
        "one step": (np.repeat([100.0, 90.0], [20, 15]) + noise(35, 2.0), 1),
        "up and down": (np.repeat([10.0, 14.0, 9.0], [15, 12, 18]) + noise(45, 0.8), 2),
        "three": (np.repeat([1.0, 3.0, 2.0, 5.0], [12, 12, 12, 12]) + noise(48, 0.2), 3),
        "none": (50.0 + noise(40, 1.0), 0),
    }
    cases = []
    for name, (values, number) in series.items():
        values = np.array(rounded(values))
        np.random.seed(1)
        mongodb = sorted(int(at) for at in energy_statistics.e_divisive(values, pvalue=0.05, permutations=999))
        fitted = ruptures.Binseg(model="l2", min_size=2, jump=1).fit(values).predict(n_bkps=number)[:-1] if number else []
        distances = energy_statistics._get_distance_matrix(energy_statistics._convert(values))
        statistic = energy_statistics._calculate_t_stats(distances)
        cases.append(
            {
                "name": name,
                "series": list(values),
                "statistic": rounded(statistic),
                "e_divisive": mongodb,
                "least_squares": [int(at) for at in fitted],
            }
        )
    return cases


def critical_value():
    """Critical value of `level_shift`: 99 % quantile of sup B(t)² / t(1 − t) over 0.1 to 0.9, of series of 1,000."""
    random = np.random.default_rng(1)
    share = np.arange(1, 1_001) / 1_000
    inside = (share >= 0.1) & (share <= 0.9)
    largest = []
    for _ in range(100):
        walks = random.standard_normal((1_000, 1_000)).cumsum(1) / np.sqrt(1_000)
        bridges = walks - share * walks[:, -1:]
        largest.append((bridges[:, inside] ** 2 / (share[inside] * (1 - share[inside]))).max(1))
    return float(np.quantile(np.concatenate(largest), 0.99))


(HERE / "steady_state.json").write_text(json.dumps(steady_state()) + "\n")
(HERE / "change_points.json").write_text(json.dumps(change_points()) + "\n")
print(f"99 % of the largest shift: {critical_value():.2f}")
