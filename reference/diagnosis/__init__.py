"""Why a result is wrong: the golden recomputed under the classic mistakes, on the user's own data."""

from reference.diagnosis.engine import Diagnosis, Explanation, diagnose
from reference.diagnosis.table import HYPOTHESES, Hypothesis

__all__ = ["HYPOTHESES", "Diagnosis", "Explanation", "Hypothesis", "diagnose"]
