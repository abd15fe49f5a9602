"""The functions and the API server end between two steps of a scenario, and the scenario ends as it does without that.

test_api_server.py has the same for launches, drift, interruption, deletion, empty nodes and static capacity; test_migration.py for adoption."""

from __future__ import annotations

import pytest

import test_scenarios as scenarios
import test_surge as surge
from scenario import nothing_is_left, ready_class, restarts
from tools.control_plane.deployment import Deployment


@pytest.fixture(scope="module", autouse=True)
def node_class(deployment: Deployment) -> None:
    ready_class(deployment)


def test_while_a_node_is_replaced_by_a_cheaper_one(deployment: Deployment) -> None:
    scenarios.test_a_node_is_replaced_by_a_cheaper_one_before_its_pods_leave(deployment, "cheaper-disturbed", restarts)


def test_while_a_disruption_budget_holds_up_a_drain(deployment: Deployment) -> None:
    scenarios.test_a_disruption_budget_holds_up_the_drain(deployment, "budget-disturbed", restarts)


def test_while_a_stateful_set_returns_to_its_volumes(deployment: Deployment) -> None:
    scenarios.test_a_stateful_set_returns_to_the_zones_of_its_volumes(deployment, "stateful-disturbed", restarts)


def test_while_nodes_with_a_daemon_set_join_and_go(deployment: Deployment) -> None:
    scenarios.test_a_daemon_set_is_counted_and_keeps_no_node(deployment, "daemons-disturbed", restarts)


def test_while_a_nodepool_and_its_ec2nodeclass_are_deleted(deployment: Deployment) -> None:
    scenarios.test_deleting_a_nodepool_removes_its_nodes_and_an_ec2nodeclass_waits_for_them(deployment, "delete-all-disturbed", restarts)


@pytest.mark.parametrize("mode", ["restart", "scale"])
def test_while_a_pod_gets_its_successor(deployment: Deployment, mode: str) -> None:
    surge.test_the_last_ready_pod_gets_its_successor_first(deployment, mode, restarts)


def test_nothing_is_left(deployment: Deployment) -> None:
    nothing_is_left(deployment)
