use super::columns::headings;
use super::*;
use crate::amount::Amount;
use crate::cluster::Update;
use crate::decode::Kind;
use crate::fixtures::{at, claim_value, cluster, event_value, node_value, pod_value, pool_value};
use crate::screen::{Action, Key};
use nodeless_catalog::Catalog;

fn example() -> Picture {
    let mut small = node_value("ip-10-0-0-7.ec2.internal", "c5.large");
    small["status"]["allocatable"]["cpu"] = "2".into();
    small["metadata"]["labels"]["karpenter.sh/capacity-type"] = "on-demand".into();
    let cluster = cluster(&[
        (Kind::NodePool, pool_value("default")),
        (Kind::Node, node_value("ip-10-0-0-12.ec2.internal", "m5.xlarge")),
        (Kind::Node, small),
        (Kind::NodeClaim, claim_value("default-drain", Some("ip-10-0-0-7.ec2.internal"), &["Initialized", "Drained"])),
        (Kind::NodeClaim, claim_value("default-new", None, &["Launched"])),
        (Kind::Pod, pod_value("cart", Some("ip-10-0-0-7.ec2.internal"))),
        (Kind::Pod, pod_value("web", None)),
        (Kind::Event, event_value("Pod", "web", "FailedScheduling", "limit of cpu reached")),
    ]);
    Picture::of(&cluster, &Catalog::embedded().unwrap(), at(90))
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| line.text().trim_end().to_owned() + "\n").collect()
}

#[test]
fn in_80_columns_every_node_is_one_line() {
    let picture = example();
    let body = text(&body(&picture, &Screen::default(), 80));
    assert_eq!(
        headings(&picture, 80).text().trim_end(),
        " NODE            TYPE        CAP  Z   AGE    $/h CPU   MEM   PODS STATE"
    );
    let nodes: Vec<&str> = body.lines().filter(|line| line.starts_with(" ip-")).collect();
    assert_eq!(nodes[0], " ip-10-0-0-12    m5.xlarge   spot 1a  90m 0.0793 ····· ·····    0 ready");
    assert_eq!(nodes[1], " ip-10-0-0-7     c5.large    od   1a  90m 0.0850 ██▌·· ▋····    1 draining 1");
    assert!(nodes.iter().all(|line| line.chars().count() <= 80));
}

#[test]
fn in_160_columns_the_state_includes_what_it_waits_for() {
    let body = text(&body(&example(), &Screen::default(), 160));
    let draining = body.lines().find(|line| line.contains("draining")).unwrap();
    assert!(draining.ends_with("draining, waits for shop/cart (it is not evicted yet)"), "{draining}");
    assert!(draining.contains("on-demand us-east-1a") && draining.contains("50%"), "{draining}");
    assert!(body.contains("limits  cpu ███··· 8 of 16 (50%)"), "{body}");
}

#[test]
fn use_is_a_second_bar_where_it_is_known() {
    let mut cluster = cluster(&[
        (Kind::Node, node_value("ip-10-0-0-12.ec2.internal", "m5.xlarge")),
        (Kind::Node, node_value("ip-10-0-0-7.ec2.internal", "m5.xlarge")),
        (Kind::Pod, pod_value("cart", Some("ip-10-0-0-12.ec2.internal"))),
    ]);
    let used = Amount { cpu_millicores: 3_000, memory_bytes: 4 << 30 };
    let usage = [("ip-10-0-0-12.ec2.internal".to_owned(), used)].into();
    cluster.apply(Update::Usage(Some(usage)));
    let picture = Picture::of(&cluster, &Catalog::embedded().unwrap(), at(90));
    let shown = |width: usize| {
        let lines = body(&picture, &Screen::default(), width);
        let nodes = lines.iter().filter(|line| line.text().starts_with(" ip-"));
        let texts = [headings(&picture, width).text()].into_iter().chain(nodes.map(Line::text));
        texts.map(|text| text.trim_end().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        shown(80),
        [
            " NODE            TYPE        CAP  Z   AGE    $/h CPU   MEM   PODS STATE",
            " ip-10-0-0-12    m5.xlarge   spot 1a  90m 0.0793 ▌· █▌ ▎· ▌·    1 ready",
            " ip-10-0-0-7     m5.xlarge   spot 1a  90m 0.0793 ··    ··       0 ready",
        ]
    );
    assert!(shown(120)[0].contains(" CPU, used        memory, used "), "{:?}", shown(120));
    assert!(shown(120)[1].contains(" █▊····· █████▎·  ▉······ █▊·····  "), "{:?}", shown(120));
    assert!(shown(160)[0].contains(" CPU requested, used    memory requested, used "), "{:?}", shown(160));
    assert!(shown(160)[1].contains(" █▎···  25% ███▊·  75%  ▋····  12% █▎···  25% "), "{:?}", shown(160));
    for width in [80, 119, 120, 131, 132, 160] {
        let visible = |line: &String| line.chars().take(width).collect::<String>();
        let states = shown(width).iter().skip(1).filter(|line| visible(line).ends_with(" ready")).count();
        assert_eq!(states, 2, "{width}: {:?}", shown(width));
    }
}

#[test]
fn what_is_not_a_node_is_listed_below() {
    let mut screen = Screen::default();
    assert!(!text(&body(&example(), &screen, 80)).contains("Events of nodeless"));
    screen.key(Key::Char('e'));
    let body = text(&body(&example(), &screen, 80));
    for expected in [
        "Needs attention (2)\n   90m Pod shop/web has no node: limit of cpu reached\n",
        "NodeClaims on the way (1)\n  default-new  not launched yet, 90m, waits for the node to register\n",
        "Pods without a node (1)\n  shop/web, 90m: limit of cpu reached\n",
        "Events of nodeless (1)\n   87m FailedScheduling  Pod shop/web: limit of cpu reached\n",
    ] {
        assert!(body.contains(expected), "{expected} is missing in\n{body}");
    }
}

#[test]
fn a_filter_leaves_what_it_matches_and_a_sort_changes_the_order() {
    let picture = example();
    let mut screen = Screen::default();
    for key in "/c5".chars().map(Key::Char).chain([Key::Enter]) {
        assert_ne!(screen.key(key), Action::Quit);
    }
    let filtered = text(&body(&picture, &screen, 80));
    assert!(filtered.contains("ip-10-0-0-7") && !filtered.contains("ip-10-0-0-12"), "{filtered}");
    let mut screen = Screen::default();
    screen.key(Key::Char('p'));
    let sorted = text(&body(&picture, &screen, 80));
    assert!(sorted.find("ip-10-0-0-7").unwrap() < sorted.find("ip-10-0-0-12").unwrap(), "{sorted}");
}

#[test]
fn the_header_counts_and_prices_the_cluster() {
    let header = text(&header(&example(), "cluster local", 80));
    assert!(header.starts_with("cluster local"), "{header}");
    assert!(header.contains("2 nodes (1 draining), 1 pod, 1 NodeClaim on the way, 1 pod without a node"), "{header}");
    assert!(header.contains("/h; 17% of CPU requested, 6% of memory requested"), "{header}");
}
