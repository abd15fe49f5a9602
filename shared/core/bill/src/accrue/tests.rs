use super::*;
use nodeless_model::claim::{LaunchedInstance, Termination, condition, reason};
use nodeless_model::{
    CapacityType, ConditionStatus, NodeClaimSpec, NodeClaimStatus, Phase, PodTemplate, Quantity, StringMap,
};
use std::sync::LazyLock;

mod volumes;

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::embedded().unwrap());

/// A time of the day of all tests.
fn at(text: &str) -> Timestamp {
    format!("2026-11-23T{text}Z").parse().unwrap()
}

fn claim(name: &str, launched: Option<Timestamp>) -> NodeClaim {
    NodeClaim {
        name: name.into(),
        uid: format!("uid-{name}"),
        node_pool: Some("default".into()),
        node_class: "default".into(),
        created: launched.unwrap_or_default(),
        version: 1,
        spec: NodeClaimSpec::default(),
        phase: Phase::Launched,
        status: NodeClaimStatus { instance: launched.map(instance), ..NodeClaimStatus::default() },
    }
}

fn instance(launched: Timestamp) -> LaunchedInstance {
    LaunchedInstance {
        id: "i-1".into(),
        instance_type: "m5.xlarge".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::OnDemand,
        price: 9.0,
        image_id: "ami-1".into(),
        private_dns_name: None,
        reservation_id: None,
        subnet_id: None,
        security_group_ids: Vec::new(),
        launched,
        certificate_authority: None,
    }
}

fn initialized(mut claim: NodeClaim, at: Timestamp) -> NodeClaim {
    claim.set_condition(condition::INITIALIZED, ConditionStatus::True, "Initialized", "", at);
    claim
}

fn terminated(mut claim: NodeClaim, reason: TerminationReason, requested: Timestamp, stopped: Timestamp) -> NodeClaim {
    claim.status.termination = Some(Termination { reason, message: String::new(), requested, deadline: None });
    claim.set_condition(condition::INSTANCE_TERMINATING, ConditionStatus::True, "InstanceTerminating", "", stopped);
    claim
}

/// A pod of the Deployment of its team, or without a controller.
fn pod(namespace: &str, milli: i64, team: Option<&str>) -> Pod {
    let requests = ResourceList::from([("cpu", Quantity::from_milli(milli))]);
    let labels: StringMap = team.map(|team| ("team".to_owned(), team.to_owned())).into_iter().collect();
    let (owner_kind, owner_name) = (team.map(|_| "Deployment".to_owned()), team.map(str::to_owned));
    Pod {
        namespace: namespace.into(),
        owner_kind,
        owner_name,
        template: PodTemplate { requests, labels, ..PodTemplate::default() }.into(),
        ..Pod::default()
    }
}

/// A node of four vCPUs and nothing else.
fn allocatable() -> ResourceList {
    ResourceList::from([("cpu", Quantity::from_units(4))])
}

/// Records with these claims, pods on the first of them, and these ends.
fn step(open: Option<&Open>, now: Timestamp, claims: &[NodeClaim], pods: &[Pod], ended: &[EndedNode]) -> Accrual {
    let allocatable = allocatable();
    let node = |(index, claim)| LiveNode {
        claim,
        allocatable: &allocatable,
        pods: if index == 0 { pods.iter().collect() } else { Vec::new() },
    };
    let nodes: Vec<LiveNode<'_>> = claims.iter().enumerate().map(node).collect();
    let labels = ["team".to_owned()];
    accrue(open, &Facts { now, nodes: &nodes, ended, catalog: &CATALOG, labels: &labels, budgets: BTreeMap::new() })
}

fn price() -> f64 {
    CATALOG.dollars_per_hour("m5.xlarge", "us-east-1a", CapacityType::OnDemand).unwrap()
}

fn close_to(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

#[test]
fn records_begin_with_the_first_step() {
    let first = step(None, at("12:10:00"), &[claim("a", Some(at("08:00:00")))], &[], &[]);
    assert_eq!((first.open.since, first.open.through, first.open.hours.len()), (at("12:10:00"), at("12:10:00"), 0));
    assert_eq!((first.pools[0].nodes, first.pools[0].dollars_today), (1, 0.0));
    assert!(close_to(first.pools[0].dollars_per_hour, price()), "the price of the catalog, not that of the claim");
}

#[test]
fn the_dollars_of_a_node_are_those_of_its_pods_and_what_is_left() {
    let node = initialized(claim("a", Some(at("12:10:00"))), at("12:12:00"));
    let pods = [pod("shop", 1000, Some("web")), pod("shop", 500, None), pod("batch", 500, Some("jobs"))];
    let open = Open::begin(at("12:00:00"));
    let step = step(Some(&open), at("12:30:00"), &[node], &pods, &[]);
    let record = &step.open.hours[0];
    assert_eq!((record.node_pool.as_str(), record.hour), ("default", at("12:00:00")));
    assert!(close_to(record.seconds(), 1200.0) && close_to(record.dollars(), price() / 3.0));
    assert!(close_to(record.starting, price() * 120.0 / 3600.0));
    let running = price() * 1080.0 / 3600.0;
    assert!(close_to(record.idle, running / 2.0), "two of four vCPUs are requested");
    assert!(close_to(record.namespaces["shop"].dollars, running * 0.375));
    assert!(close_to(record.namespaces["shop"].requested.cpu, 1.5 * 0.3));
    assert!(close_to(record.labels["team"]["web"].dollars, running * 0.25));
    let controllers: Vec<&str> = record.controllers.keys().map(String::as_str).collect();
    assert_eq!(controllers, ["batch/Deployment/jobs", "shop/Deployment/web"]);
    assert!(close_to(record.controllers["shop/Deployment/web"].dollars, running * 0.25));
    assert!(close_to(record.labels["team"]["jobs"].dollars, running * 0.125));
    assert!(close_to(record.allocatable.cpu, 4.0 * 0.3) && close_to(record.requested.cpu, 2.0 * 0.3));
    let now = &step.pools[0];
    assert!(close_to(now.idle_dollars_per_hour, price() / 2.0) && close_to(now.dollars_today, price() / 3.0));
    assert_eq!((record.leaving, now.nodes), (0.0, 1));
}

#[test]
fn an_outage_of_hours_is_made_up_for_by_hour_and_closed_hours_are_returned() {
    let node = initialized(claim("a", Some(at("10:30:00"))), at("10:31:00"));
    let open = Open::begin(at("10:00:00"));
    let after = step(Some(&open), at("13:15:00"), std::slice::from_ref(&node), &[], &[]);
    let closed: Vec<(Timestamp, f64)> = after.closed.iter().map(|record| (record.hour, record.seconds())).collect();
    assert_eq!(closed, [(at("10:00:00"), 1800.0), (at("11:00:00"), 3600.0), (at("12:00:00"), 3600.0)]);
    assert_eq!(after.open.hours[0].seconds(), 900.0);
    // Many short steps have the same result.
    let (mut open, mut closed) = (Open::begin(at("10:00:00")), Vec::new());
    for minutes in 1..=39 {
        let now = at("10:00:00").checked_add(SignedDuration::from_mins(minutes * 5)).unwrap();
        let next = step(Some(&open), now, std::slice::from_ref(&node), &[], &[]);
        closed.extend(next.closed);
        open = next.open;
    }
    assert_eq!(closed.len(), after.closed.len());
    for (record, whole) in closed.iter().zip(&after.closed) {
        assert!(close_to(record.seconds(), whole.seconds()) && close_to(record.idle, whole.idle));
    }
    assert!(close_to(open.totals["default"].today, after.open.totals["default"].today));
}

/// The planner did not run, or the table was restored to an earlier time: nothing observed when nodes ended.
#[test]
fn hours_that_are_recorded_late_are_not_exact() {
    let node = initialized(claim("a", Some(at("10:00:00"))), at("10:01:00"));
    let record = |open: &Open, now: &str| step(Some(open), at(now), std::slice::from_ref(&node), &[], &[]);
    let in_time = record(&Open::begin(at("10:40:00")), "10:49:59").open;
    assert!(!in_time.hours[0].late);
    let late = record(&in_time, "12:10:00");
    let marked = late.closed.iter().chain(&late.open.hours).map(|hour| (hour.hour, hour.late)).collect::<Vec<_>>();
    assert_eq!(marked, [(at("10:00:00"), true), (at("11:00:00"), true), (at("12:00:00"), true)]);
    // The rest of the hour is recorded in time, and the hour stays marked.
    let stored = crate::decode(&crate::encode(&late.open).unwrap()).unwrap();
    let next = record(&stored, "13:00:00");
    assert!(next.closed.iter().all(|hour| hour.late));
    let after = record(&record(&stored, "12:15:00").open, "12:20:00");
    assert!(after.open.hours[0].late && after.open.hours[0].hour == at("12:00:00"));
    let exact = record(&record(&Open { through: at("12:59:00"), ..stored }, "13:04:00").open, "13:09:00").open;
    assert!(!exact.hours[0].late, "the next hour is exact");
}

#[test]
fn an_outage_of_days_is_made_up_for_a_day_at_a_time() {
    let node = claim("a", Some(at("00:00:00")));
    let now: Timestamp = "2026-11-26T06:00:00Z".parse().unwrap();
    let mut open = Open::begin(at("00:00:00"));
    let (mut seconds, mut steps) = (0.0, 0);
    while open.through < now {
        let next = step(Some(&open), now, std::slice::from_ref(&node), &[], &[]);
        seconds += next.closed.iter().map(HourRecord::seconds).sum::<f64>();
        open = next.open;
        steps += 1;
    }
    seconds += open.hours.iter().map(HourRecord::seconds).sum::<f64>();
    assert_eq!((seconds, steps), (78.0 * 3600.0, 4));
    assert!(close_to(open.totals["default"].yesterday, price() * 24.0));
    assert!(close_to(open.totals["default"].this_month, price() * 78.0));
}

#[test]
fn an_instance_that_becomes_known_late_counts_from_its_launch() {
    let open = Open::begin(at("12:00:00"));
    let waiting = step(Some(&open), at("12:59:00"), &[claim("a", None)], &[], &[]);
    assert_eq!(waiting.open.awaited, BTreeSet::from(["uid-a".to_owned()]));
    let closed = step(Some(&waiting.open), at("13:01:00"), &[claim("a", None)], &[], &[]);
    // Launched before the hour whose record is written: it counts for the next one.
    let known = step(Some(&closed.open), at("13:05:00"), &[claim("a", Some(at("12:58:00")))], &[], &[]);
    assert_eq!(known.open.hours[0].seconds(), 7.0 * 60.0);
    assert_eq!((known.open.hours[0].hour, known.open.awaited.len()), (at("13:00:00"), 0));
    // Once it is known, it counts from the last step.
    let next = step(Some(&known.open), at("13:06:00"), &[claim("a", Some(at("12:58:00")))], &[], &[]);
    assert_eq!(next.open.hours[0].seconds(), 8.0 * 60.0);
}

#[test]
fn an_instance_that_ends_counts_until_it_stops_and_once() {
    let node = initialized(claim("a", Some(at("11:00:00"))), at("11:02:00"));
    let open = step(Some(&Open::begin(at("12:00:00"))), at("12:05:00"), std::slice::from_ref(&node), &[], &[]).open;
    let gone = terminated(node, TerminationReason::Interrupted, at("12:06:00"), at("12:08:00"));
    let ended = [EndedNode::new(&gone, at("12:09:00")).unwrap()];
    // The claim is read as live and as ended: it was deleted between the two reads.
    let both = step(Some(&open), at("12:10:00"), std::slice::from_ref(&gone), &[], &ended);
    let record = &both.open.hours[0];
    assert_eq!(record.seconds(), 8.0 * 60.0);
    assert_eq!((record.interruptions.nodes, record.ended["interrupted"].nodes, both.pools[0].nodes), (1, 1, 0));
    assert!(close_to(record.interruptions.dollars, price() * 120.0 / 3600.0), "from the notice to the end");
    assert!(close_to(record.leaving, price() * 180.0 / 3600.0), "nothing is known of its pods since 12:05");
    // The next step reads its end again.
    let again = step(Some(&both.open), at("12:15:00"), &[], &[], &ended);
    assert_eq!((again.open.hours[0].seconds(), again.open.hours[0].ended["interrupted"].nodes), (480.0, 1));
    // A claim whose instance was asked to terminate counts no longer, although its record is there.
    let waits = step(Some(&open), at("12:10:00"), std::slice::from_ref(&gone), &[], &[]);
    assert_eq!((waits.open.hours[0].seconds(), waits.pools[0].nodes), (480.0, 0));
}

#[test]
fn an_end_that_becomes_visible_late_is_counted() {
    let gone = terminated(claim("a", Some(at("11:00:00"))), TerminationReason::Empty, at("11:50:00"), at("11:51:00"));
    let ended = [EndedNode::new(&gone, at("11:59:58")).unwrap()];
    let next = step(Some(&Open::begin(at("12:00:00"))), at("12:05:00"), &[], &[], &ended);
    let record = &next.open.hours[0];
    assert_eq!((record.hour, record.seconds(), record.consolidation.nodes), (at("12:00:00"), 0.0, 1));
}

/// A NodeClaim without a NodePool that a user creates again has the name of the one that ended.
#[test]
fn a_claim_with_the_name_of_one_that_ended_counts_from_its_own_launch() {
    let single = |launched| NodeClaim { node_pool: None, ..claim("a", launched) };
    let gone = terminated(single(Some(at("11:00:00"))), TerminationReason::Deleted, at("12:01:00"), at("12:02:00"));
    let ended = [EndedNode::new(&gone, at("12:03:00")).unwrap()];
    let again = |launched| NodeClaim { uid: "again".into(), ..single(launched) };
    let awaited = step(Some(&Open::begin(at("12:00:00"))), at("12:05:00"), &[again(None)], &[], &ended);
    let launched = again(Some(at("12:06:00")));
    let next = step(Some(&awaited.open), at("12:10:00"), std::slice::from_ref(&launched), &[], &ended);
    assert_eq!(next.open.hours[0].seconds(), 120.0 + 240.0);
    assert_eq!(next.pools[0].nodes, 1);
}

#[test]
fn consolidation_saves_the_price_of_nodes_less_that_of_their_replacements() {
    let mut new = claim("new", Some(at("12:01:00")));
    new.spec.replaces = vec!["a".into(), "b".into()];
    let end = |name: &str| {
        let node = claim(name, Some(at("11:00:00")));
        EndedNode::new(
            &terminated(node, TerminationReason::Underutilized, at("12:02:00"), at("12:03:00")),
            at("12:04:00"),
        )
    };
    let ended = [end("a").unwrap(), end("b").unwrap()];
    let next = step(Some(&Open::begin(at("12:00:00"))), at("12:05:00"), &[new], &[], &ended);
    let saved = next.open.hours[0].consolidation;
    assert_eq!(saved.nodes, 2);
    assert!(close_to(saved.dollars_per_hour, price()), "two nodes less, one more: {saved:?}");
}

#[test]
fn the_removal_of_a_node_that_took_no_pod_saves_nothing() {
    let node = claim("a", Some(at("11:00:00")));
    let node = terminated(node, TerminationReason::Empty, at("12:02:00"), at("12:03:00"));
    let ended = EndedNode::new(&node, at("12:04:00")).unwrap();
    for (took_no_pod, nodes) in [(false, 1), (true, 0)] {
        let ended = [EndedNode { took_no_pod, ..ended.clone() }];
        let next = step(Some(&Open::begin(at("12:00:00"))), at("12:05:00"), &[], &[], &ended);
        assert_eq!(next.open.hours[0].consolidation.nodes, nodes);
    }
}

#[test]
fn an_instance_without_a_price_is_counted_apart() {
    let mut odd = claim("a", Some(at("12:00:00")));
    if let Some(instance) = &mut odd.status.instance {
        (instance.instance_type, instance.price) = ("x99.large".into(), 0.0);
    }
    let next = step(Some(&Open::begin(at("12:00:00"))), at("12:30:00"), &[odd], &[], &[]);
    let cost = &next.open.hours[0].offerings[0];
    assert_eq!((cost.seconds, cost.unpriced_seconds, cost.dollars), (1800.0, 1800.0, 0.0));
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Whenever claims are seen, and however long instances stay unknown: the time in all records is that of the instances.
#[test]
fn the_time_in_the_records_is_that_of_the_instances() {
    let second = |second: i64| at("00:00:00").checked_add(SignedDuration::from_secs(second)).unwrap();
    for seed in 0..50 {
        let mut random = Random(seed);
        // Created, launched, known, asked to terminate, deleted.
        let lives: Vec<[i64; 5]> = (0..30)
            .map(|_| {
                let mut times = [random.below(20_000); 5];
                for index in 1..5 {
                    times[index] = times[index - 1] + 1 + random.below(if index == 3 { 9_000 } else { 400 });
                }
                times
            })
            .collect();
        let (mut open, mut seconds, mut now) = (Open::begin(second(0)), 0.0, 0);
        while now < 40_000 {
            let at_most = if random.below(9) == 0 { 12_000 } else { 300 };
            now += 1 + random.below(at_most);
            // The claims are read a little later than the time that counts, and the ends still later.
            let (claims_read, ends_read) = (now + random.below(3), now + 3 + random.below(3));
            let of = |index: usize, life: &[i64; 5], seen: i64| {
                let known = life[2] <= seen;
                let node = claim(&format!("n{index}"), known.then(|| second(life[1])));
                if life[3] <= seen {
                    terminated(node, TerminationReason::Expired, second(life[3]), second(life[3]))
                } else {
                    node
                }
            };
            let claims: Vec<NodeClaim> = (0..)
                .zip(&lives)
                .filter(|(_, life)| life[0] <= claims_read && claims_read < life[4])
                .map(|(index, life)| of(index, life, claims_read))
                .collect();
            let since = open.ended_since();
            let ended: Vec<EndedNode> = (0..)
                .zip(&lives)
                .filter(|(_, life)| life[4] <= ends_read && second(life[4]) >= since)
                .filter_map(|(index, life)| EndedNode::new(&of(index, life, i64::MAX), second(life[4])))
                .collect();
            let next = step(Some(&open), second(now), &claims, &[], &ended);
            // Every third result is lost: the next step counts the same time again.
            if random.below(3) > 0 {
                seconds += next.closed.iter().map(HourRecord::seconds).sum::<f64>();
                open = next.open;
            }
        }
        seconds += open.hours.iter().map(HourRecord::seconds).sum::<f64>();
        let through = open.through.duration_since(second(0)).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "seconds of a day")]
        let exact: f64 = lives.iter().map(|life| ((life[3] as f64).min(through) - life[1] as f64).max(0.0)).sum();
        // Instances that were launched within seconds before the last step, or are known only later, are not yet in the records.
        #[expect(clippy::cast_precision_loss, reason = "seconds of a day")]
        let unknown: f64 = lives
            .iter()
            .filter(|life| (life[2] as f64) > through && (life[1] as f64) < through)
            .map(|life| through - life[1] as f64)
            .sum();
        assert!((seconds - (exact - unknown)).abs() < 30.0 * 6.0, "seed {seed}: {seconds} and {exact} less {unknown}");
        if unknown == 0.0 {
            assert!((seconds - exact).abs() < 30.0, "seed {seed}: {seconds} and {exact}");
        }
    }
}

/// A cluster of 1,000 nodes in five NodePools, with pods of 40 namespaces, 100 applications and 200 Deployments.
/// `docs/report.md` uses the result.
#[test]
fn the_records_of_a_thousand_nodes_cost_a_few_cents_a_month() {
    let sizes = ["large", "xlarge", "2xlarge", "4xlarge"];
    let families = ["m5", "c5", "r5", "m5d", "c5d"];
    let claims: Vec<NodeClaim> = (0..1000_usize)
        .map(|index| {
            let launched =
                at("08:00:00").checked_add(SignedDuration::from_secs(i64::try_from(index * 13).unwrap())).unwrap();
            let mut node = initialized(claim(&format!("pool-{}-{index:05}", index % 5), Some(launched)), launched);
            node.node_pool = Some(format!("pool-{}", index % 5));
            if let Some(instance) = &mut node.status.instance {
                instance.instance_type = format!("{}.{}", families[index / 5 % 5], sizes[index / 25 % 4]);
                instance.zone = format!("us-east-1{}", ["a", "b", "c"][index / 100 % 3]);
                instance.capacity_type = if index % 2 == 0 { CapacityType::Spot } else { CapacityType::OnDemand };
            }
            node
        })
        .collect();
    let pods: Vec<Pod> = (0..8000_usize)
        .map(|index| {
            let milli_cpu = 100 + i64::try_from(index * 37 % 400).unwrap();
            pod(&format!("namespace-{}", index * 7 % 40), milli_cpu, Some(&format!("application-{}", index * 11 % 100)))
        })
        .collect();
    let allocatable = allocatable();
    let node = |(index, claim)| LiveNode {
        claim,
        allocatable: &allocatable,
        pods: pods[index * 8..index * 8 + 8].iter().collect(),
    };
    let nodes: Vec<LiveNode<'_>> = claims.iter().enumerate().map(node).collect();
    let labels = ["team".to_owned()];
    let facts =
        |now| Facts { now, nodes: &nodes, ended: &[], catalog: &CATALOG, labels: &labels, budgets: BTreeMap::new() };
    let mut open = Open::begin(at("12:01:00"));
    for minutes in [7, 23, 59] {
        open = accrue(Some(&open), &facts(at(&format!("12:{minutes:02}:13")))).open;
    }
    let step = accrue(Some(&open), &facts(at("13:04:13")));
    assert_eq!(step.closed.len(), 5);
    let hour = step.closed.iter().map(|record| crate::encode(record).unwrap().len()).max().unwrap();
    let open = crate::encode(&step.open).unwrap().len();
    // List prices of us-east-1: a kilobyte written, twice as much in a transaction; four kilobytes read; a gigabyte stored.
    let (write, read, stored) = (0.625e-6, 0.125e-6, 0.25 / 1e9);
    let kilobytes = |bytes: usize| u32::try_from(bytes.div_ceil(1000)).map(f64::from).unwrap();
    let hours = 730.0 * (5.0 * kilobytes(hour) * write * 2.0 + kilobytes(open) * write);
    let steps = 730.0 * 12.0 * (kilobytes(open) * write + (kilobytes(open) / 4.0).ceil() * read);
    let storage = 13.0 * 730.0 * 5.0 * kilobytes(hour) * 1000.0 * stored;
    let month = hours + steps + storage;
    println!(
        "{hour} bytes an hour, {open} bytes the open record, ${hours:.3} + ${steps:.3} + ${storage:.3} = ${month:.3} a month"
    );
    // "1.7 kB", "5.7 kB" and "8 cents" in the documentation.
    assert!((1_650..1_750).contains(&hour) && (5_650..5_750).contains(&open), "{hour} {open}");
    assert!((0.07..0.08).contains(&month), "{month}");
}

#[test]
fn an_open_record_that_is_too_large_has_fewer_groups() {
    let mut open = Open::begin(at("12:00:00"));
    for pool in 0..40 {
        let mut record = HourRecord::new(at("12:00:00"), &format!("pool-{pool}"));
        for index in 0..200_u32 {
            let dollars = f64::from((pool * 7919 + index * 104_729) % 1_000_003) / 1e4;
            record.namespaces.insert(format!("namespace-{index}"), Group { dollars, requested: Amounts::default() });
        }
        open.hours.push(record);
    }
    let whole = crate::encode(&open).unwrap().len();
    let smaller = open.encode_within(whole / 2).unwrap();
    assert!(smaller.len() <= whole / 2 && open.encode_within(whole).unwrap().len() == whole);
    let read: Open = crate::decode(&smaller).unwrap();
    let sum = |open: &Open| {
        open.hours.iter().flat_map(|hour| hour.namespaces.values()).map(|group| group.dollars).sum::<f64>()
    };
    assert!((sum(&read) - sum(&open)).abs() < 0.01 && read.hours[0].namespaces.contains_key(crate::OTHER));
}

/// With as many groups as a record may have, all with the longest names, an hour is well below the 400 kB of an item.
#[test]
fn a_record_with_the_longest_names_fits_into_an_item() {
    // Names that do not compress: characters of a generator.
    let mut random = Random(7);
    let mut name = |length: usize| -> String {
        (0..length).map(|_| char::from(b'a' + u8::try_from(random.below(26)).unwrap())).collect()
    };
    let mut record = HourRecord::new(at("12:00:00"), &name(63));
    let group = Group { dollars: 12.345_678, requested: Amounts { cpu: 1.234_567, memory: 2.345_678, gpu: 3.456_789 } };
    for _ in 0..250 {
        record.namespaces.insert(name(63), group);
        record.controllers.insert(format!("{}/{}/{}", name(63), name(63), name(253)), group);
    }
    for _ in 0..crate::MAX_LABELS {
        record.labels.insert(name(63), (0..250).map(|_| (name(63), group)).collect());
    }
    record.limit_groups(MAX_GROUPS);
    let bytes = crate::encode(&record).unwrap().len();
    assert!(bytes < 200_000, "{bytes}");
}

#[test]
fn a_warm_node_counts_until_it_is_stopped_and_from_its_start_again() {
    let open = step(None, at("12:00:00"), &[], &[], &[]).open;
    let mut warm = claim("a", Some(at("12:01:00")));
    let first = step(Some(&open), at("12:05:00"), std::slice::from_ref(&warm), &[], &[]);
    assert_eq!((first.open.hours[0].seconds(), first.pools[0].nodes), (240.0, 1));
    warm.set_condition(condition::REGISTERED, ConditionStatus::Unknown, reason::STOPPED, "", at("12:06:00"));
    warm.phase = Phase::Stopped;
    let second = step(Some(&first.open), at("12:10:00"), std::slice::from_ref(&warm), &[], &[]);
    assert_eq!(second.open.hours[0].seconds(), 300.0);
    let now = &second.pools[0];
    assert!(now.nodes == 0 && now.dollars_per_hour == 0.0, "{now:?}");
    // It is taken for pods, and EC2 has not started it.
    warm.phase = Phase::Starting;
    let third = step(Some(&second.open), at("12:15:00"), std::slice::from_ref(&warm), &[], &[]);
    assert_eq!(third.open.hours[0].seconds(), 300.0);
    let ended = EndedNode::new(&warm, at("12:19:00")).unwrap();
    assert_eq!(step(Some(&third.open), at("12:20:00"), &[], &[], &[ended]).open.hours[0].seconds(), 300.0);
    warm.phase = Phase::Launched;
    warm.status.instance = Some(instance(at("12:18:00")));
    warm.set_condition(condition::REGISTERED, ConditionStatus::Unknown, "NodeNotFound", "", at("12:18:05"));
    let fourth = step(Some(&third.open), at("12:20:00"), &[warm], &[], &[]);
    assert_eq!((fourth.open.hours[0].seconds(), fourth.pools[0].nodes), (420.0, 1));
}
