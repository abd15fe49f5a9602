//! Two releases of the functions over one table, as during an update or after going back: each reads what the other has written.
//!
//! Code of another release cannot be linked, so items of earlier formats are kept as files, each with the fields that the readers of that
//! release need. A change reads all of them, writes all of these fields, and ignores fields and attributes that it does not know. The catalog
//! is left out: its format has a number, and another one is written anew.

use crate::support::{start_counted, within};
use futures::FutureExt as _;
use nodeless_bill::{HourRecord, Open};
use nodeless_driver::Outcome;
use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::Run;
use nodeless_planner::decode_command;
use nodeless_ports::table::{Attributes, Item, Key, Partition, Query, Range, Table as _, Value as Stored};
use nodeless_state::claims::{PARTITIONS, decode_claim};
use nodeless_telemetry::Null;
use nodeless_world::memory::MemoryState;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The first format. A change of a format that earlier releases still read needs no other file; one that they do not is not allowed.
const FIRST: &str = include_str!("stored-items/first.json");
/// What has another form in each release, and no part in what releases have in common.
const LEFT_OUT: [&str; 2] = ["catalog#", "snapshot#"];

/// The items of a release, and for the items of each kind the fields that its readers need, as paths.
#[derive(Serialize, Deserialize)]
struct Format {
    needed: BTreeMap<String, BTreeSet<String>>,
    items: Vec<Kept>,
}

/// An item in the file.
#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    partition: Option<u32>,
    key: String,
    attributes: BTreeMap<String, KeptValue>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum KeptValue {
    Text(String),
    Number(i64),
    /// In hexadecimal.
    Bytes(String),
}

impl Kept {
    fn new(item: &Item) -> Self {
        let value = |value: &Stored| match value {
            Stored::Text(text) => KeptValue::Text(text.clone()),
            Stored::Number(number) => KeptValue::Number(*number),
            Stored::Bytes(bytes) => KeptValue::Bytes(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        };
        let partition = match item.key.partition {
            Partition::Cluster => None,
            Partition::Claims(number) => Some(number),
        };
        let attributes = item.attributes.iter().map(|(name, kept)| (name.clone(), value(kept))).collect();
        Self { partition, key: item.key.sort.clone(), attributes }
    }

    fn item(&self) -> Item {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        let value = |value: &KeptValue| match value {
            KeptValue::Text(text) => Stored::Text(text.clone()),
            KeptValue::Number(number) => Stored::Number(*number),
            KeptValue::Bytes(text) => Stored::Bytes(text.as_bytes().chunks(2).map(byte).collect()),
        };
        let attributes: Attributes = self.attributes.iter().map(|(name, kept)| (name.clone(), value(kept))).collect();
        let partition = self.partition.map_or(Partition::Cluster, Partition::Claims);
        Item { key: Key { partition, sort: self.key.clone() }, attributes }
    }
}

/// The JSON of an item, as the types of this release have it where it is compressed; `None` if it has none.
fn json(item: &Item) -> Option<Value> {
    let text = |name: &str| match item.attributes.get(name) {
        Some(Stored::Text(text)) => Some(serde_json::from_str(text).unwrap()),
        _ => None,
    };
    let state = || table(std::slice::from_ref(item));
    match kind(item) {
        "nodeclaim" => Some(json!(decode_claim(item).unwrap())),
        "command" => Some(json!(decode_command(&nodeless_state::decode_command(item).unwrap()).unwrap())),
        "shard" => state().shards().now_or_never().unwrap().unwrap().first().map(|shard| json!(shard)),
        "launchgroup" => {
            let id = item.key.sort.trim_start_matches("launchgroup#");
            state().launch_group(id).now_or_never().unwrap().unwrap().map(|group| json!(group))
        }
        "cost" => {
            let open = state().open_costs().now_or_never().unwrap().unwrap();
            Some(json!({ "format": 1, "record": nodeless_bill::decode::<Open>(&open.encoded).unwrap() }))
        }
        "hour" => match &item.attributes["record"] {
            Stored::Bytes(bytes) => {
                Some(json!({ "format": 1, "record": nodeless_bill::decode::<HourRecord>(bytes).unwrap() }))
            }
            other => panic!("{other:?}"),
        },
        // Its keys are AMIs and instance types, not fields: what is below them is read as lists.
        "memory" => text("record")
            .map(|amis: Value| values(&amis).map(|types| values(types).cloned().collect::<Value>()).collect()),
        _ => text("record"),
    }
}

/// The values of an object.
fn values(object: &Value) -> impl Iterator<Item = &Value> {
    object.as_object().into_iter().flat_map(serde_json::Map::values)
}

/// The item with this JSON instead of its own.
fn with_json(item: &Item, json: &Value) -> Item {
    let mut changed = item.clone();
    let names = ["record", "encoded"].into_iter();
    for name in names.filter(|name| item.attributes.contains_key(*name)) {
        let value = match &item.attributes[name] {
            Stored::Bytes(_) => Stored::Bytes(deflated(json.to_string().as_bytes())),
            _ => Stored::Text(json.to_string()),
        };
        changed.attributes.insert(name.to_owned(), value);
    }
    changed
}

/// The bytes as blocks of a deflate stream that are not compressed (RFC 1951, section 3.2.4).
fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut blocks = bytes.chunks(usize::from(u16::MAX)).peekable();
    let mut stream = Vec::new();
    while let Some(block) = blocks.next() {
        let [low, high] = u16::try_from(block.len()).unwrap().to_le_bytes();
        stream.extend([u8::from(blocks.peek().is_none()), low, high, !low, !high]);
        stream.extend(block);
    }
    stream
}

fn first() -> (Vec<Item>, BTreeMap<String, BTreeSet<String>>) {
    let format: Format = serde_json::from_str(FIRST).unwrap();
    (format.items.iter().map(Kept::item).collect(), format.needed)
}

/// The kind of an item: the part of its key before the name.
fn kind(item: &Item) -> &str {
    item.key.sort.split('#').next().unwrap()
}

fn table(items: &[Item]) -> MemoryState {
    let state = MemoryState::default();
    state.table().put_all("a test", items.to_vec()).now_or_never().unwrap().unwrap();
    state
}

/// All items of a table, but what is left out.
fn all_items(state: &MemoryState) -> Vec<Item> {
    let partitions = (0..PARTITIONS).map(Partition::Claims).chain([Partition::Cluster]);
    let query = |partition| Query { partition, keys: Range::Prefix(String::new()), last: None, consistent: true };
    let items = partitions.flat_map(|partition| state.table().items(&query(partition)));
    items.filter(|item| !LEFT_OUT.iter().any(|prefix| item.key.sort.starts_with(prefix))).collect()
}

/// The result of reading the items of each kind, and how many there are, with the readers of this release.
async fn read(items: &[Item]) -> Result<BTreeMap<&'static str, usize>, String> {
    let state = table(items);
    let failed = |error: nodeless_ports::PortError| error.to_string();
    let (early, late) = ("1970-01-01T00:00:00Z".parse().unwrap(), "2100-01-01T00:00:00Z".parse().unwrap());
    let mut counts = BTreeMap::from([("nodeclaim", state.list().await.map_err(failed)?.len())]);
    let commands = state.commands().await.map_err(failed)?;
    commands.iter().try_for_each(|command| decode_command(command).map(drop)).map_err(|error| error.to_string())?;
    counts.insert("command", commands.len());
    counts.insert("shard", state.shards().await.map_err(failed)?.len());
    counts.insert("nodepool", state.usage().await.map_err(failed)?.len());
    counts.insert("unavailable", state.unavailable(early).await.map_err(failed)?.len());
    counts.insert("interrupted", state.interruptions(early).await.map_err(failed)?.len());
    counts.insert("budget", state.launch_budgets(early).await.map_err(failed)?.len());
    counts.insert("decision", state.decisions(1000).await.map_err(failed)?.len());
    counts.insert("ended", state.ended_nodes(early).await.map_err(failed)?.len());
    let open = state.open_costs().await.map_err(failed)?;
    if open.version > 0 {
        nodeless_bill::decode::<Open>(&open.encoded).map_err(|error| error.to_string())?;
    }
    counts.insert("cost", usize::from(open.version > 0));
    let hours = state.hours(early, late).await.map_err(failed)?;
    for hour in &hours {
        nodeless_bill::decode::<HourRecord>(&hour.encoded).map_err(|error| error.to_string())?;
    }
    counts.insert("hour", hours.len());
    counts.insert("plan", usize::from(state.unfinished_plan().await.map_err(failed)?.is_some()));
    counts.insert("plan-revision", usize::from(state.plan_revision().await.map_err(failed)? > 0));
    counts.insert("published-events", usize::from(!state.published_events().await.map_err(failed)?.is_empty()));
    counts.insert("not-yet-evaluated", usize::from(!state.not_yet_evaluated().await.map_err(failed)?.is_empty()));
    let mut named = BTreeMap::from([("launchgroup", 0), ("launchcheck", 0)]);
    for item in items {
        let name = item.key.sort.split_once('#').map_or("", |(_, name)| name);
        let is_found = match kind(item) {
            "launchgroup" => state.launch_group(name).await.map_err(failed)?.is_some(),
            "launchcheck" => state.launch_check(name).await.map_err(failed)?.is_some(),
            _ => continue,
        };
        *named.entry(if kind(item) == "launchgroup" { "launchgroup" } else { "launchcheck" }).or_default() +=
            usize::from(is_found);
    }
    counts.append(&mut named);
    Ok(counts)
}

/// The kinds whose records only the operations decode.
const OF_OPERATIONS: [&str; 7] =
    ["churn", "costreport", "memory", "refusedstops", "registrations", "waitingpods", "zonalshifts"];

/// Asserts that each item is read, and that nodeless works with them.
async fn assert_read(items: &[Item], what: &str) {
    let counts = read(items).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut expected: BTreeMap<&str, usize> = counts.keys().map(|kind| (*kind, 0)).collect();
    for item in items.iter().filter(|item| !OF_OPERATIONS.contains(&kind(item))) {
        let count = expected.get_mut(kind(item));
        *count.unwrap_or_else(|| panic!("{what}: this test does not read {}", item.key.sort)) += 1;
    }
    assert_eq!(counts, expected, "{what}");

    let mut driver = start_counted();
    driver.claims().table().put_all("a test", items.to_vec()).await.unwrap();
    let limit = within(&driver, 20 * 60);
    driver.advance_to(limit).unwrap();
    let mut problems = BTreeSet::new();
    for (_, outcome) in driver.take_outcomes() {
        match outcome {
            Outcome::Planned(Ok(report)) => problems.extend(report.problems),
            Outcome::Swept(Ok(report)) => problems.extend(report.problems),
            other => problems.extend(other.failure()),
        }
    }
    assert_eq!(problems, BTreeSet::new(), "{what}");
}

#[tokio::test]
async fn items_of_the_first_format_are_read() {
    assert_read(&first().0, "the first format").await;
}

/// The value with an unknown field in each of its objects that has the fields of a type; a map from names to values would get another entry.
fn with_unknown_fields(value: &Value, path: &str, needed: &BTreeSet<String>) -> Value {
    match value {
        Value::Object(fields) => {
            let mut changed: serde_json::Map<String, Value> = fields
                .iter()
                .map(|(name, value)| (name.clone(), with_unknown_fields(value, &format!("{path}/{name}"), needed)))
                .collect();
            // The form of a duration is that of serde, in every release.
            let is_duration = fields.contains_key("nanos");
            if !is_duration && fields.keys().any(|name| needed.contains(&format!("{path}/{name}"))) {
                changed.insert("ofANewerRelease".to_owned(), json!({ "field": [1] }));
            }
            Value::Object(changed)
        }
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| with_unknown_fields(item, &format!("{path}/*"), needed)).collect())
        }
        other => other.clone(),
    }
}

#[tokio::test]
async fn what_a_newer_release_adds_is_ignored() {
    let (items, needed) = first();
    let mut added = 0;
    let newer = items.iter().map(|item| {
        let mut changed = item.clone();
        // That record is read without its keys.
        let has_fields = kind(item) != "memory";
        if let (Some(record), Some(needed)) = (json(item), needed.get(kind(item)).filter(|_| has_fields)) {
            changed = with_json(item, &with_unknown_fields(&record, "", needed));
            added += usize::from(changed != *item);
        }
        changed.attributes.insert("ofANewerRelease".to_owned(), Stored::Text("a value".to_owned()));
        changed
    });
    let newer: Vec<Item> = newer.collect();
    assert!(added > 10, "{added}");
    assert_read(&newer, "a newer format").await;
}

/// The fields that each object at the path of a needed field lacks.
fn lacking(record: &Value, path: &str, needed: &BTreeSet<String>, found: &mut BTreeSet<String>) {
    match record {
        Value::Object(fields) => {
            let here = needed.iter().filter(|needed| needed.rsplit_once('/').is_some_and(|(parent, _)| parent == path));
            let names = here.filter_map(|needed| needed.rsplit_once('/')).map(|(_, name)| name);
            found.extend(names.filter(|name| !fields.contains_key(*name)).map(|name| format!("{path}/{name}")));
            for (name, value) in fields {
                lacking(value, &format!("{path}/{name}"), needed, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| lacking(item, &format!("{path}/*"), needed, found)),
        _ => {}
    }
}

/// Each item that a run of a scenario with all features and faults writes, as it is every five minutes.
fn written() -> Vec<Item> {
    let scenario = Scenario::built_in("faults-all-features").unwrap();
    let run = Run::new(scenario, 12000, None, Arc::new(Null)).unwrap();
    let (claims, mut seen, mut items) = (run.driver().claims().clone(), BTreeSet::new(), Vec::new());
    run.finish_observed(|_, _| {
        for item in all_items(&claims) {
            if seen.insert(format!("{item:?}")) {
                items.push(item);
            }
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    items
}

#[test]
fn what_is_written_has_what_readers_of_the_first_format_need() {
    let (_, needed) = first();
    let mut seen = BTreeSet::new();
    for item in written() {
        let (Some(record), Some(needed)) = (json(&item), needed.get(kind(&item))) else { continue };
        let mut lacks = BTreeSet::new();
        lacking(&record, "", needed, &mut lacks);
        assert!(lacks.is_empty(), "{} lacks {lacks:?}: {record}", item.key.sort);
        seen.insert(kind(&item).to_owned());
    }
    let missing: Vec<&String> = needed.keys().filter(|kind| !seen.contains(*kind)).collect();
    assert!(missing.len() < 3, "the run writes none of {missing:?}");
}

/// The paths of all fields of a value. An element of an array has the name `*`.
fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}/{name}");
                paths(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, &format!("{path}/*"), found)),
        _ => {}
    }
}

/// The value without the fields at a path.
fn without(value: &Value, path: &[&str]) -> Value {
    let [first, rest @ ..] = path else { return value.clone() };
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !(rest.is_empty() && name == first));
            let changed = kept
                .map(|(name, value)| (name.clone(), if name == first { without(value, rest) } else { value.clone() }));
            Value::Object(changed.collect())
        }
        Value::Array(items) if *first == "*" => Value::Array(items.iter().map(|item| without(item, rest)).collect()),
        other => other.clone(),
    }
}

/// The fields that the readers of this release need of the items of a kind.
async fn needed(items: &[Item]) -> BTreeSet<String> {
    let records: Vec<(&Item, Value)> = items.iter().filter_map(|item| Some((item, json(item)?))).collect();
    let mut needed = BTreeSet::new();
    for (item, record) in &records {
        let mut all = BTreeSet::new();
        paths(record, "", &mut all);
        for path in all {
            let parts: Vec<&str> = path.split('/').skip(1).collect();
            let changed = with_json(item, &without(record, &parts));
            if OF_OPERATIONS.contains(&kind(item)) || read(&[changed]).await.is_err() {
                needed.insert(path);
            }
        }
    }
    // A field of one variant of an enum, or of a map, is not needed by others.
    for (_, record) in &records {
        let mut lacks = BTreeSet::new();
        lacking(record, "", &needed, &mut lacks);
        needed.retain(|path| !lacks.contains(path));
    }
    needed
}

/// Writes the items of this release into a file. A file is not written again: it stands for the release that wrote it.
#[tokio::test]
#[ignore = "writes the file of a new format"]
async fn write_the_items_of_this_format() {
    let path = std::env::var("NODELESS_STORED_ITEMS").expect("NODELESS_STORED_ITEMS is the path of the file to write");
    let mut by_kind: BTreeMap<String, Vec<Item>> = BTreeMap::new();
    for item in written() {
        by_kind.entry(kind(&item).to_owned()).or_default().push(item);
    }
    let mut format = Format { needed: BTreeMap::new(), items: Vec::new() };
    for (kind, items) in by_kind {
        let fields = needed(&items).await;
        if !fields.is_empty() {
            format.needed.insert(kind, fields);
        }
        format.items.extend(with_each_field(&items).iter().map(Kept::new));
    }
    std::fs::write(path, serde_json::to_string_pretty(&format).unwrap() + "\n").unwrap();
}

/// A few of the items, each of which has fields that those before it lack.
fn with_each_field(items: &[Item]) -> Vec<Item> {
    const MAX_BYTES: usize = 12_000;
    let (mut seen, mut keys, mut chosen) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for item in items.iter().rev().filter(|item| item.bytes() < MAX_BYTES) {
        let mut fields = BTreeSet::from([String::new()]);
        json(item).iter().for_each(|record| paths(record, "", &mut fields));
        // Names in maps differ in each item.
        let is_new = fields.iter().filter(|field| field.matches('/').count() < 4).any(|field| !seen.contains(field));
        if is_new && chosen.len() < 6 && keys.insert(&item.key) {
            seen.append(&mut fields);
            chosen.push(item.clone());
        }
    }
    chosen
}
