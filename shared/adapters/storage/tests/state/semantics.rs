//! The table in memory, with which the simulator runs, does what DynamoDB Local does: any sequence of reads and writes has the same
//! answers.

use crate::common::{config, create_table, table_of};
use nodeless_ports::table::{
    Attributes, Change, Condition, Item, Key, Outcome, Partition, Query, Range, Refusal, Table, Value, Write,
};
use nodeless_world::memory::MemoryTable;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<Write>),
    PutAll(Vec<Item>),
    Get(Key),
    GetAll(BTreeSet<Key>),
    Query(Vec<Query>),
}

fn partition() -> impl Strategy<Value = Partition> {
    prop_oneof![Just(Partition::Cluster), (0..2_u32).prop_map(Partition::Claims)]
}

fn sort() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a#1", "a#2", "a#10", "b", "b#é"]).prop_map(str::to_owned)
}

fn key() -> impl Strategy<Value = Key> {
    (partition(), sort()).prop_map(|(partition, sort)| Key { partition, sort })
}

/// Names of which two are of numbers in every item. `size` is a reserved word of DynamoDB.
fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["n", "size", "record", "r:cpu"])
}

fn value_of(name: &'static str) -> BoxedStrategy<Value> {
    let number = (-3..4_i64).prop_map(Value::Number);
    if matches!(name, "n" | "size") {
        return number.boxed();
    }
    let text = prop::sample::select(vec!["", "x", "é"]).prop_map(|text| Value::Text(text.to_owned()));
    let bytes = vec(any::<u8>(), 0..3).prop_map(Value::Bytes);
    prop_oneof![number, text, bytes].boxed()
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let one = name().prop_flat_map(|name| (Just(name.to_owned()), value_of(name)));
    vec(one, 1..4).prop_map(|pairs| pairs.into_iter().collect())
}

fn condition() -> impl Strategy<Value = Condition> {
    let named = || name().prop_map(str::to_owned);
    let leaf = prop_oneof![
        Just(Condition::Missing),
        named().prop_map(Condition::Lacks),
        name().prop_flat_map(|name| value_of(name).prop_map(move |value| Condition::Is(name.to_owned(), value))),
        (named(), -3..4_i64).prop_map(|(name, number)| Condition::AtMost(name, number)),
        (named(), -3..4_i64).prop_map(|(name, number)| Condition::Below(name, number)),
        (named(), -3..4_i64).prop_map(|(name, number)| Condition::Above(name, number)),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![vec(inner.clone(), 0..3).prop_map(Condition::Any), vec(inner, 0..3).prop_map(Condition::All)]
    })
}

fn change() -> impl Strategy<Value = Change> {
    let numbers = prop::sample::select(vec!["n", "size"]).prop_map(str::to_owned);
    prop_oneof![
        attributes().prop_map(Change::Put),
        attributes().prop_map(Change::Set),
        btree_map(numbers, -3..4_i64, 1..3).prop_map(Change::Add),
        Just(Change::Delete),
    ]
}

fn write() -> impl Strategy<Value = Write> {
    let condition = prop_oneof![Just(Condition::NONE), condition()];
    (key(), change(), condition).prop_map(|(key, change, condition)| Write { key, change, condition })
}

fn distinct(writes: Vec<Write>) -> Vec<Write> {
    writes.into_iter().map(|write| (write.key.clone(), write)).collect::<BTreeMap<_, _>>().into_values().collect()
}

fn query() -> impl Strategy<Value = Query> {
    let range = prop_oneof![
        prop::sample::select(vec!["a", "a#1", "b", "c"]).prop_map(|prefix| Range::Prefix(prefix.to_owned())),
        (sort(), sort()).prop_map(|(a, b)| Range::Between(a.clone().min(b.clone()), a.max(b))),
    ];
    (partition(), range, prop::option::of(1..3_u32)).prop_map(|(partition, keys, last)| Query {
        partition,
        keys,
        last,
        consistent: true,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let items = btree_map(key(), attributes(), 1..4);
    prop_oneof![
        6 => vec(write(), 1..4).prop_map(|writes| Step::Write(distinct(writes))),
        1 => items.prop_map(|items| Step::PutAll(items.into_iter().map(|(key, attributes)| Item { key, attributes }).collect())),
        1 => key().prop_map(Step::Get),
        1 => btree_set(key(), 0..4).prop_map(Step::GetAll),
        2 => vec(query(), 1..3).prop_map(Step::Query),
    ]
}

/// The answer of a step, as far as the port promises it.
#[derive(Debug, PartialEq)]
enum Answer {
    Written(Outcome),
    Items(Vec<Item>),
}

async fn answer(table: &dyn Table, step: Step) -> Answer {
    match step {
        Step::Write(writes) => Answer::Written(table.write("test", writes).await.unwrap()),
        Step::PutAll(items) => {
            table.put_all("test", items).await.unwrap();
            Answer::Items(Vec::new())
        }
        Step::Get(key) => Answer::Items(table.get("test", &key).await.unwrap().into_iter().collect()),
        Step::GetAll(keys) => {
            let mut items = table.get_all("test", &keys).await.unwrap();
            items.sort_by(|a, b| a.key.cmp(&b.key));
            Answer::Items(items)
        }
        Step::Query(queries) => Answer::Items(table.query("test", &queries).await.unwrap()),
    }
}

#[test]
fn the_table_in_memory_answers_as_dynamodb_does() {
    let Some(dynamodb) = nodeless_tests::dynamodb_local() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: 100, failure_persistence: None, ..Config::default() });
    let steps = vec(step(), 1..25);
    let tested = runner.run(&steps, |steps| {
        let answers = runtime.block_on(async {
            let config = config(&dynamodb.url).await;
            create_table(&config).await;
            let (real, memory) = (table_of(&config), MemoryTable::default());
            let mut answers = Vec::new();
            for step in steps {
                answers.push((answer(&real, step.clone()).await, answer(&memory, step.clone()).await, step));
            }
            answers
        });
        for (real, memory, step) in answers {
            prop_assert_eq!(real, memory, "{:?}", step);
        }
        Ok(())
    });
    tested.unwrap();
}

/// The refusals of a transaction contain each item whose condition failed.
#[tokio::test]
async fn a_refusal_contains_the_stored_item() {
    let Some(dynamodb) = nodeless_tests::dynamodb() else { return };
    let config = config(&dynamodb.url).await;
    create_table(&config).await;
    let stored =
        Item { key: Key::of_cluster("a"), attributes: Attributes::from([("version".to_owned(), Value::Number(2))]) };
    let memory = MemoryTable::default();
    for table in [&table_of(&config) as &dyn Table, &memory] {
        table.put_all("test", vec![stored.clone()]).await.unwrap();
        let put = |sort: &str| Write::new(Key::of_cluster(sort), Change::Put(stored.attributes.clone()));
        let is = |version| Condition::Is("version".to_owned(), Value::Number(version));
        let writes = vec![put("a").on(is(1)), put("b"), put("c").on(is(1))];
        let refusals = vec![Some(Refusal { item: Some(stored.clone()) }), None, Some(Refusal { item: None })];
        assert_eq!(table.write("test", writes).await.unwrap(), Outcome::Refused(refusals));
        let alone = table.write("test", vec![put("a").on(is(1))]).await.unwrap();
        assert_eq!(alone, Outcome::Refused(vec![Some(Refusal { item: Some(stored.clone()) })]));
        assert_eq!(table.get("test", &Key::of_cluster("b")).await.unwrap(), None);
    }
}
