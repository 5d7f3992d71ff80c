"""Statistics the audit rests on: NumPy and SciPy only, nothing of ours."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.stats.agreement import RaterAgreement, agreement, cohen_kappa
    from heldout.stats.contrast import (
        FEW,
        Contrast,
        Estimate,
        cluster_contrast,
        cluster_mean,
        subset_difference,
        subset_mean,
    )
    from heldout.stats.dealt import (
        area,
        deal,
        equal_sizes,
        expected_meeting,
        group_test,
        meeting_test,
    )
    from heldout.stats.grouping import (
        FEWEST,
        Grouping,
        Trend,
        aligned_ranks,
        block_means,
        holm,
        order_grouping,
        order_trend,
        tie_runs,
        trend_test,
    )
    from heldout.stats.intervals import (
        RESOLVED,
        Interval,
        MeanTest,
        UpperQuantile,
        binomial_band,
        binomial_interval,
        cluster_mean_test,
        cluster_rate_interval,
        draws_needed,
        exceedance,
        excess_p,
        upper_quantile,
    )
    from heldout.stats.jonckheere import Jonckheere, jonckheere_blocks
    from heldout.stats.paired import (
        McNemar,
        PairedTable,
        PairedTest,
        cluster_sums,
        mcnemar,
        paired_table,
        paired_test,
        pairs_needed,
        placed_test,
    )
    from heldout.stats.permutation import (
        PERMUTATIONS,
        Design,
        Permuted,
        flip_test,
        product_design,
        shuffle_test,
        staged,
    )
    from heldout.stats.ranks import Rank, adjust, kendall_tau_b, rank_intervals, ranks_of

__all__ = [
    "FEW",
    "FEWEST",
    "PERMUTATIONS",
    "RESOLVED",
    "Contrast",
    "Design",
    "Estimate",
    "Grouping",
    "Interval",
    "Jonckheere",
    "McNemar",
    "MeanTest",
    "PairedTable",
    "PairedTest",
    "Permuted",
    "Rank",
    "RaterAgreement",
    "Trend",
    "UpperQuantile",
    "adjust",
    "agreement",
    "aligned_ranks",
    "area",
    "binomial_band",
    "binomial_interval",
    "block_means",
    "cluster_contrast",
    "cluster_mean",
    "cluster_mean_test",
    "cluster_rate_interval",
    "cluster_sums",
    "cohen_kappa",
    "deal",
    "draws_needed",
    "equal_sizes",
    "exceedance",
    "excess_p",
    "expected_meeting",
    "flip_test",
    "group_test",
    "holm",
    "jonckheere_blocks",
    "kendall_tau_b",
    "mcnemar",
    "meeting_test",
    "order_grouping",
    "order_trend",
    "paired_table",
    "paired_test",
    "pairs_needed",
    "placed_test",
    "product_design",
    "rank_intervals",
    "ranks_of",
    "shuffle_test",
    "staged",
    "subset_difference",
    "subset_mean",
    "tie_runs",
    "trend_test",
    "upper_quantile",
]

__getattr__ = load_on_first_use(__name__, __file__)
