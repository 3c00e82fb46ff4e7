"""The controller can be asked for what the interface of handlers names."""

from __future__ import annotations

from kafkawire.reference_broker.cluster.controller.asked_controller import AskedController
from kafkawire.reference_broker.cluster.controller.controller import Controller


def test_the_controller_has_the_interface() -> None:
    assert issubclass(Controller, AskedController)
