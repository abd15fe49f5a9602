"""Each CloudWatch alarm of the module has a section of docs/operate/alarms.md, each section its alarm, and the descriptions name it."""

from __future__ import annotations

import re

import pages
import pytest

MODULE = (pages.ROOT / "terraform/observability.tf").read_text()
PAGE = "docs/operate/alarms.md"


def alarms() -> dict[str, str]:
    """The Terraform source of each alarm by the end of its name, such as `stale`; `each.key` is one of functions or queues."""
    blocks = re.findall(r'^resource "aws_cloudwatch_(?:metric|composite)_alarm" "\w+" \{\n(.*?)^\}', MODULE, re.S | re.M)
    found = {}
    for block in blocks:
        name = re.search(r'alarm_name += "\$\{local\.name\}-(.+)"', block)
        assert name, block
        if name[1] == "${each.key}":  # the alarms of local.metric_alarms
            alarms = re.search(r"metric_alarms = \{\n(.*?)\n    \} :", MODULE, re.S)
            assert alarms
            found |= dict(re.findall(r"^      ([\w-]+) = \{\n(.*?)\n      \}", alarms[1], re.S | re.M))
        else:
            found[name[1].removeprefix("${each.key}-")] = block
    return found


def test_the_alarms_are_found() -> None:
    found = alarms()
    assert len(found) >= 17 and len(re.findall('^resource "aws_cloudwatch_.*_alarm"', MODULE, re.M)) >= 7, sorted(found)


def sections() -> dict[str, str]:
    """The text of each section of the page, by its heading."""
    return dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", (pages.ROOT / PAGE).read_text(), re.S | re.M))


def test_each_alarm_has_a_section_and_each_section_its_alarm() -> None:
    assert set(sections()) == set(alarms())


@pytest.mark.parametrize("name", sorted(alarms()))
def test_the_description_of_an_alarm_names_its_section(name: str) -> None:
    description = re.search(r'(?:alarm_)?description += "(.*)"$', alarms()[name], re.M)
    assert description, name
    assert description[1].endswith(f" See {PAGE}#{pages.anchor(name)}."), description[1]
    # CloudWatch takes 1,024 characters; names of functions and queues are put in.
    assert len(description[1]) < 800


@pytest.mark.parametrize("name", sorted(alarms()))
def test_a_section_states_its_metric_how_to_look_and_what_to_do(name: str) -> None:
    text = sections()[name]
    assert re.findall(r"^(?:- )?\*\*(Metrics?|How to look\.|What to do\.)\*\*", text, re.M) in (
        ["Metric", "How to look.", "What to do."],
        ["Metrics", "How to look.", "What to do."],
    )
    metrics = re.findall(r'metric(?:_name)? += "(\w+)"|"(\w+)", stat = ', alarms()[name])
    named = {one or other for one, other in metrics}
    named |= set(re.findall(r'for_each = \{ plans = "(\w+)", sweeps = "(\w+)"', alarms()[name])[0]) if "plans =" in alarms()[name] else set()
    assert named and all(f"`{metric}`" in text for metric in named), f"{name} is about {named}"


def test_the_table_lists_every_alarm() -> None:
    table = (pages.ROOT / PAGE).read_text().partition("\n## ")[0]
    for name in alarms():
        assert f"](#{name})" in table, name
