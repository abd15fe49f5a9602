use super::columns::headings;
use super::*;
use crate::fixtures::{at, claim_value, cluster, event_value, node_value, pod_value, pool_value};
use crate::line::Target;
use crate::objects::amount::Amount;
use crate::objects::cluster::Update;
use crate::objects::decode::ShownKind;
use crate::screen::{Key, KeyAction};
use crate::viewing::Viewing;
use nodeless_catalog::Catalog;
use nodeless_model::label_query::LabelQuery;

fn example() -> Picture {
    let mut small = node_value("ip-10-0-0-7.ec2.internal", "c5.large");
    small["status"]["allocatable"]["cpu"] = "2".into();
    small["metadata"]["labels"]["karpenter.sh/capacity-type"] = "on-demand".into();
    let cluster = cluster(&[
        (ShownKind::NodePool, pool_value("default")),
        (ShownKind::Node, node_value("ip-10-0-0-12.ec2.internal", "m5.xlarge")),
        (ShownKind::Node, small),
        (
            ShownKind::NodeClaim,
            claim_value("default-drain", Some("ip-10-0-0-7.ec2.internal"), &["Initialized", "Drained"]),
        ),
        (ShownKind::NodeClaim, claim_value("default-new", None, &["Launched"])),
        (ShownKind::Pod, pod_value("cart", Some("ip-10-0-0-7.ec2.internal"))),
        (ShownKind::Pod, pod_value("web", None)),
        (ShownKind::Event, event_value("Pod", "web", "FailedScheduling", "limit of cpu reached")),
    ]);
    Picture::new(&cluster, &Catalog::embedded().unwrap(), at(90))
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
        (ShownKind::Node, node_value("ip-10-0-0-12.ec2.internal", "m5.xlarge")),
        (ShownKind::Node, node_value("ip-10-0-0-7.ec2.internal", "m5.xlarge")),
        (ShownKind::Pod, pod_value("cart", Some("ip-10-0-0-12.ec2.internal"))),
    ]);
    let used = Amount { cpu_millicores: 3_000, memory_bytes: 4 << 30 };
    let usage = [("ip-10-0-0-12.ec2.internal".to_owned(), used)].into();
    cluster.apply(Update::Usage(Some(usage)));
    let picture = Picture::new(&cluster, &Catalog::embedded().unwrap(), at(90));
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
    assert!(!text(&body(&example(), &screen, 80)).contains("Events in the name of nodeless"));
    screen.key(Key::Char('e'));
    let body = text(&body(&example(), &screen, 80));
    for expected in [
        "Needs attention (2)\n   90m Pod shop/web has no node: limit of cpu reached\n",
        "NodeClaims on the way (1)\n  default-new  not launched yet, 90m, waits for the node to register\n",
        "Pods without a node (1)\n  shop/web, 90m: limit of cpu reached\n",
        "Events in the name of nodeless (1)\n   87m FailedScheduling  Pod shop/web: limit of cpu reached\n",
    ] {
        assert!(body.contains(expected), "{expected} is missing in\n{body}");
    }
}

#[test]
fn a_filter_leaves_what_it_matches_and_a_sort_changes_the_order() {
    let picture = example();
    let mut screen = Screen::default();
    for key in "/c5".chars().map(Key::Char).chain([Key::Enter]) {
        assert_ne!(screen.key(key), KeyAction::Quit);
    }
    let filtered = text(&body(&picture, &screen, 80));
    assert!(filtered.contains("ip-10-0-0-7") && !filtered.contains("ip-10-0-0-12"), "{filtered}");
    assert!(
        filtered.contains("Pod shop/web has no node: limit of cpu reached"),
        "what needs attention stays: {filtered}"
    );
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
    assert!(header.contains("/h, $120/month; 17% of CPU requested, 6% of memory requested"), "{header}");
}

/// A node with 8 GPUs, of which a pod requests one, one without, and one of another team.
fn with_gpus(viewing: &Viewing) -> Picture {
    let mut gpu = node_value("ip-10-0-0-12.ec2.internal", "p4d.24xlarge");
    gpu["status"]["allocatable"]["nvidia.com/gpu"] = "8".into();
    gpu["status"]["allocatable"]["hugepages-1Gi"] = "0".into();
    gpu["metadata"]["labels"]["example.com/team"] = "ml".into();
    let mut other = node_value("other", "m5.large");
    other["metadata"]["labels"]["example.com/team"] = "web".into();
    let mut train = pod_value("train", Some("ip-10-0-0-12.ec2.internal"));
    train["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1".into();
    let cluster = cluster(&[
        (ShownKind::NodePool, pool_value("default")),
        (ShownKind::Node, gpu),
        (ShownKind::Node, node_value("plain", "m5.xlarge")),
        (ShownKind::Node, other),
        (ShownKind::Pod, train),
        (ShownKind::Pod, pod_value("web", Some("other"))),
    ]);
    Picture::viewed(&cluster, &Catalog::embedded().unwrap(), at(90), viewing)
}

#[test]
fn gpus_and_labels_are_columns_or_a_second_line() {
    let labelled = Viewing { label_columns: vec!["example.com/team".to_owned()], ..Viewing::default() };
    let shown = |viewing: &Viewing, width: usize| {
        let picture = with_gpus(viewing);
        let lines = body(&picture, &Screen::default(), width).into_iter().map(|line| line.text().trim_end().to_owned());
        lines
            .skip_while(|line| !line.starts_with(" NODE"))
            .filter(|line| line.starts_with(' ') && (!line.starts_with("  ") || line.starts_with("     ")))
            .take(4)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        shown(&Viewing::default(), 80)[..2],
        [
            " NODE            TYPE        CAP  Z     $/h CPU   MEM   PODS GPU STATE",
            " ip-10-0-0-12    p4d.24xlar… spot 1a 9.6658 █▎··· ▋····    1 1/8 ready",
        ]
    );
    let narrow = shown(&labelled, 80);
    assert_eq!(narrow[2], "     example.com/team ml", "{narrow:?}");
    assert!(narrow[3].starts_with(" other "), "{narrow:?}");
    for width in [90, 131, 160] {
        let wide = shown(&labelled, width);
        assert!(wide[0].contains(" GPU TEAM STATE"), "{wide:?}");
        assert!(wide[1].contains(" 1/8 ml   ready") && wide[2].contains(" -   web  ready"), "{wide:?}");
        assert!(wide.iter().all(|line| line.chars().count() <= width), "{wide:?}");
    }
    let header = text(&header(&with_gpus(&labelled), "", 160));
    assert!(header.contains("of memory requested, nvidia.com/gpu 1/8"), "{header}");
    let page =
        text(&crate::detail(&with_gpus(&labelled), &Target::Node("ip-10-0-0-12.ec2.internal".into()), &[], false, 80));
    for fact in
        ["  nvidia.com/gpu  1 of 8 requested\n", "  example.com/team ml\n", "memory 2Gi, nvidia.com/gpu 1, Running"]
    {
        assert!(page.contains(fact), "{fact}: {page}");
    }
}

#[test]
fn a_selector_hides_nodes_with_their_pods_and_states_how_many() {
    let selector = LabelQuery::parse("example.com/team notin (web)").unwrap();
    let picture = with_gpus(&Viewing { selector, ..Viewing::default() });
    assert_eq!((picture.totals.nodes, picture.totals.pods, picture.node_pools[0].nodes), (2, 1, 2));
    assert_eq!(picture.node_pools[0].limits[0].used, "8", "a limit is that of the whole NodePool");
    let header = text(&header(&picture, "", 160));
    let line = "The selector example.com/team!=web hides 1 of 3 nodes with 1 pod, $";
    assert!(header.lines().any(|one| one.starts_with(line)), "{header}");
    let none =
        with_gpus(&Viewing { selector: LabelQuery::parse("example.com/team=none").unwrap(), ..Viewing::default() });
    assert!(none.nodes.is_empty() && none.node_pools.is_empty() && none.hidden.unwrap().nodes == 3);
}
