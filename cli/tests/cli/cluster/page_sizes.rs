//! The size of the pages of files at 300 nodes, in headless Chromium. That of `nodeless view --web` is in `view_web.rs`.

use crate::report::{item, record};
use crate::support::browser::Browser;
use crate::support::objects::Objects;
use crate::support::{Ended, Folder, nodeless, run, wait_for};
use serde_json::{Value, json};
use std::path::Path;

/// Returns the size of the page, how much wider than the window it is, and where what follows the title ends: the first block.
const SIZE: &str = "
    const [first] = document.querySelectorAll('h1 ~ :not(style, h2)');
    const block = first.getBoundingClientRect();
    const { scrollWidth, scrollHeight } = document.documentElement;
    return { height: scrollHeight, overflow: scrollWidth - window.innerWidth, block: Math.round(block.bottom + window.scrollY) };";

/// 300 nodes of several types and states, their pods, and pods that fit nowhere.
fn objects() -> Objects {
    let mut objects = Objects::new();
    for number in 0..300 {
        let name = format!("ip-10-0-{}-{}.eu-central-1.compute.internal", number / 100, number % 100);
        let instance_type = ["m5.large", "m5.2xlarge", "c5.4xlarge"][number % 3];
        objects.node(&name, instance_type, ["on-demand", "spot"][number % 2]);
        for pod in 0..number % 4 {
            objects.pod(&format!("p{number}-{pod}"), Some(&name), "500m");
        }
    }
    for number in 0..50 {
        objects.pod(&format!("huge-{number}"), None, "900");
    }
    objects
}

/// The record of an hour of 300 nodes, of 20 instance types, with the pods of 40 namespaces.
fn hour(hour: u32) -> Value {
    let mut record = record();
    let at = format!("2026-11-23T{hour:02}");
    record["hour"] = json!(format!("{at}:00:00Z"));
    let offering = |number: usize| {
        let mut offering = record["offerings"][0].clone();
        offering["instanceType"] = json!(format!("m{}i.{}xlarge", 4 + number % 4, 1 + number / 4));
        offering["seconds"] = json!(15.0 * 3600.0);
        offering
    };
    let offerings: Vec<Value> = (0..20).map(offering).collect();
    let namespaces = (0..40).map(|number| (format!("team-{number}"), record["namespaces"]["shop"].clone()));
    record["namespaces"] = namespaces.collect::<serde_json::Map<_, _>>().into();
    record["offerings"] = json!(offerings);
    item(&at, 1, &record)
}

/// The sizes of a page at 1600 and at 390 pixels.
fn sizes(browser: &mut Browser, page: &Path) -> [Value; 2] {
    let url = format!("file://{}", page.display());
    browser.open(&url);
    let loaded = "return document.readyState === 'complete' ? location.href : ''";
    wait_for("the page", || browser.text(loaded) == url);
    [1600, 390].map(|width| {
        let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        browser.call("Emulation.setDeviceMetricsOverride", &size);
        browser.script(SIZE)
    })
}

fn succeeded(ended: &Ended) {
    assert!(matches!(ended.code, Some(0 | 2)), "{}", ended.stderr);
}

#[test]
fn pages_of_300_nodes_begin_with_the_figures_and_fit_a_phone() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name);
    let objects = objects();
    std::fs::write(path("cluster.json"), json!({ "kind": "List", "apiVersion": "v1", "items": objects.0 }).to_string())
        .unwrap();
    let mut what_if = nodeless();
    what_if.args(["plan", "--what-if", "--cluster"]).arg(path("cluster.json")).arg("--html").arg(path("what-if"));
    succeeded(&run(&mut what_if));
    let items: Vec<Value> = (0..24).map(hour).collect();
    std::fs::write(path("hours.json"), json!({ "Items": items }).to_string()).unwrap();
    let report = run(nodeless().arg("report").arg(path("hours.json")).args(["-o", "html"]));
    succeeded(&report);
    std::fs::write(path("report"), report.stdout).unwrap();
    for (name, highest) in [("what-if", [2_000, 3_500]), ("report", [1_500, 2_000])] {
        let page = path(name).with_extension("html");
        std::fs::rename(path(name), &page).unwrap();
        for ((size, width), highest) in sizes(&mut browser, &page).into_iter().zip([1600, 390]).zip(highest) {
            eprintln!("{name} at {width} pixels: {size}");
            let pixels = |key: &str| size[key].as_i64().unwrap();
            assert!(pixels("overflow") <= 0, "{name} at {width}: {size}");
            assert!(pixels("block") <= 500, "{name} at {width}: the first block is too high: {size}");
            assert!(pixels("height") <= highest, "{name} at {width}: {size}");
        }
    }
}
