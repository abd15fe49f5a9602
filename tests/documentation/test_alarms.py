"""Each CloudWatch alarm of the module has a page, each page of an alarm has its alarm, and the descriptions name the page."""

from __future__ import annotations

import re

import pages
import pytest

MODULE = (pages.ROOT / "terraform/observability.tf").read_text()
FOLDER = "docs/operate"
# The pages of the folder that describe no alarm.
OTHER_PAGES = ("README.md", "prometheus.md")


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


def test_each_alarm_has_a_page_and_each_page_its_alarm() -> None:
    written = {path.stem for path in (pages.ROOT / FOLDER).glob("*.md") if path.name not in OTHER_PAGES}
    assert written == set(alarms())


@pytest.mark.parametrize("name", sorted(alarms()))
def test_the_description_of_an_alarm_names_its_page(name: str) -> None:
    description = re.search(r'(?:alarm_)?description += "(.*)"$', alarms()[name], re.M)
    assert description, name
    assert description[1].endswith(f" See {FOLDER}/{name}.md."), description[1]
    # CloudWatch takes 1,024 characters; names of functions and queues are put in.
    assert len(description[1]) < 800


@pytest.mark.parametrize("name", sorted(alarms()))
def test_a_page_states_what_it_means_how_to_look_and_what_to_do(name: str) -> None:
    text = (pages.ROOT / f"{FOLDER}/{name}.md").read_text()
    assert re.match(rf"# Alarm `(FUNCTION-|QUEUE-)?{re.escape(name)}`\n", text)
    headings = re.findall(r"^## (.+)$", text, re.M)
    assert headings == ["How to look", "What to do"], headings
    metrics = re.findall(r'metric(?:_name)? += "(\w+)"|"(\w+)", stat = ', alarms()[name])
    named = {one or other for one, other in metrics}
    named |= set(re.findall(r'for_each = \{ plans = "(\w+)", sweeps = "(\w+)"', alarms()[name])[0]) if "plans =" in alarms()[name] else set()
    assert named and all(f"`{metric}`" in text for metric in named), f"{name} is about {named}"


def test_the_overview_lists_every_alarm() -> None:
    text = (pages.ROOT / FOLDER / "README.md").read_text()
    for name in alarms():
        assert f"]({name}.md)" in text, name
