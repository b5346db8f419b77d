"""How examples are generated: the same ones in every run, however busy the machine is.

`pytest --hypothesis-profile chance` looks for others.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_PATIENT = [HealthCheck.too_slow]
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=_PATIENT)
settings.register_profile("chance", deadline=None, suppress_health_check=_PATIENT)
settings.load_profile("same")
