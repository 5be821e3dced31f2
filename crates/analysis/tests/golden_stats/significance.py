"""Makes significance.json: SciPy's results, for the tests of stats/significance.rs and stats/student.rs.

    pip install scipy==1.17.1 numpy==2.4.6 statsmodels==0.15.0 && python significance.py > significance.json
"""

import json

import numpy
import scipy
from scipy import stats
from statsmodels.stats.multitest import multipletests

random = numpy.random.default_rng(20261120)


def test(result):
    interval = result.confidence_interval(0.95)
    return {"t": result.statistic, "freedom": result.df, "p": result.pvalue, "interval": [interval.low, interval.high]}


paired, apart = [], []
for n, shift, spread in [(2, 3, 1), (3, 0, 1), (3, 1, 0.1), (5, 0.5, 1), (7, 0.02, 0.05), (10, 0, 1), (30, 0.4, 1)]:
    a = random.normal(10, 2, n)
    b = a + random.normal(shift, spread, n)
    paired.append({"a": a.tolist(), "b": b.tolist(), **test(stats.ttest_rel(b, a))})
    c = random.normal(10 + shift, spread * 3, n + 1)
    apart.append({"a": a.tolist(), "b": c.tolist(), **test(stats.ttest_ind(c, a, equal_var=False))})

quantiles = [
    {"share": share, "freedom": freedom, "t": stats.t.ppf(share, freedom), "chi2": stats.chi2.ppf(1 - share, freedom)}
    for freedom in (1, 2, 2.7, 4, 9, 29)
    for share in (0.9, 0.975, 0.999, 0.99999)
]

powers = []
for freedom in (1, 2, 4, 9, 29):
    for level in (0.05, 0.05 / 12):
        critical = stats.t.ppf(1 - level / 2, freedom)
        for shift in (0.5, 2, 4, 8, 20):
            power = stats.nct.sf(critical, freedom, shift) + stats.nct.cdf(-critical, freedom, shift)
            # SciPy gives up on some of the far tails.
            if not numpy.isnan(power):
                powers.append({"freedom": freedom, "critical": critical, "shift": shift, "power": power})

holm = []
for chances in ([0.01, 0.04, 0.03, 0.005], [0.2, 0.2, 0.0001, 0.9, 0.04, 0.012], [0.5], [0.02, 0.02, 0.02]):
    holm.append({"p": chances, "adjusted": multipletests(chances, method="holm")[1].tolist()})

print(json.dumps({
    "scipy": scipy.__version__,
    "paired": paired,
    "apart": apart,
    "quantiles": quantiles,
    "powers": powers,
    "holm": holm,
}, indent=1, default=float))
