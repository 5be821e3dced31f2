"""Makes bootstrap.json: SciPy's results for samples, for the tests of stats/bootstrap.rs.

    pip install scipy==1.17.1 numpy==2.4.6 && python bootstrap.py > bootstrap.json
"""

import json

import numpy
import scipy
from scipy.stats import bootstrap


# Rounded, so that a resample equal to the sample is a tie for any order of summation.
def log_mean(x, axis=-1):
    return numpy.round(numpy.mean(numpy.log(x), axis=axis), 12)


def ratio(a, b, axis=-1):
    return numpy.round(numpy.mean(b, axis=axis) / numpy.mean(a, axis=axis), 12)


CASES = [
    ([[11850.0, 12210.0, 12045.0, 11790.0, 12530.0]], log_mean),
    ([[1.2, 3.4, 0.7, 9.8, 2.2, 1.1, 4.5]], log_mean),
    ([[812.0, 790.0, 845.0, 801.0], [910.0, 870.0, 1002.0, 899.0, 905.0]], ratio),
]

cases = []
for samples, statistic in CASES:
    seeded = numpy.random.default_rng(20261120)
    result = bootstrap(samples, statistic, n_resamples=999, method="percentile", random_state=seeded, vectorized=True)
    cases.append({
        "samples": samples,
        "replicates": result.bootstrap_distribution.tolist(),
        "percentile": list(result.confidence_interval),
    })
print(json.dumps({"scipy": scipy.__version__, "cases": cases}))
