"""Owns the late penalty in percent a day, as a plugin of nbgrader's (imports nbgrader)."""

from __future__ import annotations

import math

from nbgrader.plugins import BasePlugin
from traitlets import Float

DAY = 24 * 3600.0


class PercentPerDay(BasePlugin):
    """Takes a share of the score for each day begun after the due date, at most all of it."""

    percent = Float(10.0, min=0.0, max=100.0, help="Of the score, for each day begun.").tag(config=True)

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        """The points to take off; None where nothing is late."""
        if total_seconds_late <= 0 or not score:
            return None
        days = math.ceil(total_seconds_late / DAY)
        return round(score * min(1.0, days * self.percent / 100.0), 6)
