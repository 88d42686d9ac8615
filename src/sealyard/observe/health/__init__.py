"""The health of a gateway: whether its parts work, and alerts about faults that last.

Exported names are imported on first use, because the webhook of alerts needs an HTTP client.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.observe.health.alerts import Alerting, AlertList, AlertView, list_alerts, post_alerts
    from sealyard.observe.health.readiness import Readiness

__all__ = ("AlertList", "AlertView", "Alerting", "Readiness", "list_alerts", "post_alerts")

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__, alerts="AlertList AlertView Alerting list_alerts post_alerts", readiness="Readiness"
    )
