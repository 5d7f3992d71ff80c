"""log p and the moments of log p over the vocabulary, against float64."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from heldout.model.local.entropy import (  # noqa: E402
    ORDERS,
    SHARES,
    largest_means,
    moments,
    renyi,
)


def exact(logits: torch.Tensor, targets: torch.Tensor) -> list[torch.Tensor]:
    p = torch.log_softmax(logits.double(), -1)
    mean = (p.exp() * p).sum(-1)
    spread = (p.exp() * (p - mean[:, None]).square()).sum(-1).sqrt()
    return [p.gather(-1, targets[:, None])[:, 0], mean, spread]


@pytest.mark.parametrize("scale", [0.01, 1.0, 8.0, 60.0])
@pytest.mark.parametrize("tile", [7, 1000, 16_384])
def test_tiles_give_what_the_whole_vocabulary_gives(scale: float, tile: int) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn((5, 20_011), generator=generator) * scale + 30
    targets = torch.randint(0, 20_011, (5,), generator=generator)
    for ours, theirs in zip(
        moments(logits, targets, tile=tile), exact(logits, targets), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_half_precision_logits_are_summed_in_more(scale: float = 3.0) -> None:
    logits = (
        torch.randn((4, 30_000), generator=torch.Generator().manual_seed(1)) * scale
    ).bfloat16()
    targets = torch.tensor([0, 5, 29_999, 17])
    for ours, theirs in zip(moments(logits, targets), exact(logits, targets), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_unused_entries_at_minus_infinity_do_not_count() -> None:
    logits = torch.randn((2, 50), generator=torch.Generator().manual_seed(2))
    masked = torch.cat([logits, torch.full((2, 10), -torch.inf)], 1)
    targets = torch.tensor([3, 4])
    for ours, theirs in zip(moments(masked, targets), exact(logits, targets), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert moments(masked, torch.tensor([55, 3])).logprob[0] == -torch.inf


def test_a_nan_is_not_hidden() -> None:
    logits = torch.zeros((2, 40))
    logits[1, 39] = torch.nan
    given = moments(logits, torch.tensor([0, 0]), tile=16)
    assert torch.isfinite(torch.stack(given)[:, 0]).all()
    assert not torch.isfinite(torch.stack(given)[:, 1]).any()


def test_entropies_of_every_order_and_their_largest_values() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn((5, 3_011), generator=generator) * 4 + 30
    p = torch.log_softmax(logits.double(), -1)
    exactly = [
        2 * (p / 2).exp().sum(-1).log(),
        -(p.exp() * p).sum(-1),
        -(2 * p).exp().sum(-1).log(),
        -p.amax(-1),
    ]
    values = renyi(logits, tile=700)
    torch.testing.assert_close(values, torch.stack(exactly, 1), rtol=1e-5, atol=1e-5)
    means = largest_means(values.numpy())
    assert means.shape == (len(ORDERS), len(SHARES))
    assert means[0, 0] == values[:, 0].max() and means[3, 2] == pytest.approx(values[:, 3].mean())
