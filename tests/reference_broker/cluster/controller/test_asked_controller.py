"""The controller has every method of the interface that the handlers use."""

from __future__ import annotations

from kafkawire.reference_broker.cluster.controller.asked_controller import AskedController
from kafkawire.reference_broker.cluster.controller.controller import Controller


def test_the_controller_has_the_interface() -> None:
    assert issubclass(Controller, AskedController)
