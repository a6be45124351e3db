"""Median and spread of samples, and ratios that pair the samples of one round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Spread:
    """Summary of one or more samples. `low` and `high` are the quartiles; of one sample all five are the same."""

    median: float
    low: float
    high: float
    least: float
    most: float

    @staticmethod
    def of(samples: Sequence[float]) -> Spread:
        """Summarise `samples`, of which there is at least one."""
        low, _, high = quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else (samples[0],) * 3
        return Spread(median(samples), low, high, min(samples), max(samples))

    def as_json(self) -> dict[str, float]:
        """Return the five numbers by name."""
        return {
            "median": self.median,
            "low_quartile": self.low,
            "high_quartile": self.high,
            "min": self.least,
            "max": self.most,
        }


def paired(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Return the ratio of every round that both have: what else the machine did hit both alike."""
    return [a / b for a, b in zip(over, under, strict=False)]
