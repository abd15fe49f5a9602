//! The modules of a crate form no cycle: of the modules that share a parent, none depends on itself through others.
//!
//! A module and its children may refer to each other, as `mod.rs` and its files do. What a child uses counts as used by its
//! ancestor among the modules that are compared. Test modules are left out.

use crate::architecture::root;
use crate::test_binaries::crates;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module by its path below the crate; the crate itself is empty.
type Module = Vec<String>;

#[test]
fn modules_of_a_crate_form_no_cycle() {
    let mut cycles = Vec::new();
    // The fuzz targets are binaries of one file each.
    for package in crates().into_iter().filter(|package| !package.ends_with("fuzz")) {
        let modules = Modules::read(&package.join("src"));
        let name = package.strip_prefix(root()).unwrap().display();
        assert!(!modules.paths.is_empty(), "{name} has no sources");
        cycles.extend(modules.cycles().into_iter().map(|cycle| format!("{name}: {cycle}")));
    }
    assert!(
        cycles.is_empty(),
        "modules depend on each other in a cycle; move what they share into one of its own: {cycles:#?}"
    );
}

#[test]
fn a_cycle_is_found_through_children_and_re_exports() {
    let paths = |text: &[&str]| text.iter().flat_map(|text| paths(&tokens(text))).collect();
    let module = |path: &str| path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect::<Module>();
    let modules = Modules {
        paths: BTreeMap::from([
            (module(""), paths(&["pub use a::One;", "mod a; mod b;"])),
            (module("a"), paths(&["mod child;"])),
            (module("a::child"), paths(&["use crate::{b::{Two, Three}, c};"])),
            (module("b"), paths(&["fn f() -> crate::One { todo!() }"])),
        ]),
    };
    assert_eq!(modules.cycles(), ["a -> b -> a"]);
}

/// The modules of a crate, and which paths each of them names.
struct Modules {
    paths: BTreeMap<Module, Vec<Vec<String>>>,
}

impl Modules {
    fn read(source: &Path) -> Self {
        let mut modules = Self { paths: BTreeMap::new() };
        modules.read_folder(source, &[]);
        modules
    }

    fn read_folder(&mut self, folder: &Path, module: &[String]) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if stem == "tests" {
                continue;
            }
            let child = [module, std::slice::from_ref(&stem)].concat();
            if path.is_dir() {
                self.read_folder(&path, &child);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let is_own = ["lib", "mod"].contains(&stem.as_str());
                let text = fs::read_to_string(&path).unwrap();
                let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                self.paths.insert(if is_own { module.to_vec() } else { child }, paths(&tokens(shipped)));
            }
        }
    }

    /// The module at a path relative to a module, through re-exports too.
    fn target(&self, from: &Module, path: &[String], depth: usize) -> Module {
        let mut at = from.clone();
        let mut rest = path;
        while let [first, others @ ..] = rest {
            match first.as_str() {
                "crate" => at.clear(),
                "super" => drop(at.pop()),
                "self" => {}
                _ => break,
            }
            rest = others;
        }
        while let [first, others @ ..] = rest {
            let child = [&at[..], std::slice::from_ref(first)].concat();
            if !self.paths.contains_key(&child) {
                break;
            }
            (at, rest) = (child, others);
        }
        let Some(name) = rest.first().filter(|_| at != *from || depth == 0) else { return at };
        let re_exported = self.paths.get(&at).and_then(|paths| paths.iter().find(|path| path.last() == Some(name)));
        match re_exported {
            Some(path) if depth < 4 && path != rest => self.target(&at, path, depth + 1),
            _ => at,
        }
    }

    /// The cycles of modules that use each other, at each level.
    fn cycles(&self) -> Vec<String> {
        let mut edges: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (from, paths) in &self.paths {
            for path in paths.iter().filter(|path| self.is_local(from, path)) {
                let to = self.target(from, path, 0);
                let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if shared < from.len() && shared < to.len() {
                    edges.entry(from[..=shared].to_vec()).or_default().insert(to[..=shared].to_vec());
                }
            }
        }
        edges.keys().filter_map(|start| cycle(&edges, start)).collect()
    }

    /// Whether a path is of this crate: it begins with a keyword or with a child of the module.
    fn is_local(&self, from: &Module, path: &[String]) -> bool {
        let first = &path[0];
        ["crate", "super", "self"].contains(&first.as_str())
            || self.paths.contains_key(&[&from[..], std::slice::from_ref(first)].concat())
    }
}

/// The shortest way from a module back to itself over modules that come after it in their order, so that each cycle is named
/// once.
fn cycle(edges: &BTreeMap<Module, BTreeSet<Module>>, start: &Module) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut ways = vec![vec![start.clone()]];
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in edges.get(way.last()?).into_iter().flatten() {
                let extended = [&way[..], std::slice::from_ref(next)].concat();
                if next == start {
                    let names: Vec<String> = extended.iter().map(|module| module.join("::")).collect();
                    return Some(names.join(" -> "));
                }
                if next > start && seen.insert(next.clone()) {
                    longer.push(extended);
                }
            }
        }
        ways = longer;
    }
    None
}

/// The words and signs of a source text, without comments and literals.
fn tokens(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default();
        let mut outside = true;
        for part in code.split('"') {
            if outside {
                let spaced: String = part
                    .chars()
                    .map(|c| if c.is_alphanumeric() || c == '_' { c.to_string() } else { format!(" {c} ") })
                    .collect();
                found.extend(spaced.split_whitespace().map(str::to_owned));
            }
            outside = !outside;
        }
    }
    found
}

/// The paths that a text names, each alternative of `{ }` by itself.
fn paths(tokens: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut place = 0;
    while place < tokens.len() {
        let begins = is_word(&tokens[place]) && (place == 0 || tokens[place - 1] != ":");
        if begins {
            let end = tree(tokens, place, &[], &mut found);
            place = end.max(place + 1);
        } else {
            place += 1;
        }
    }
    found
}

/// Reads one path and what is in its braces; returns the place after it.
fn tree(tokens: &[String], mut place: usize, before: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut path = before.to_vec();
    loop {
        match tokens.get(place).map(String::as_str) {
            Some("{") => {
                place += 1;
                while tokens.get(place).is_some_and(|token| token != "}") {
                    let start = place;
                    place = tree(tokens, place, &path, found);
                    while tokens.get(place).is_some_and(|token| token != "," && token != "}") {
                        place += 1;
                    }
                    if tokens.get(place).is_some_and(|token| token == ",") || place == start {
                        place += 1;
                    }
                }
                return place + 1;
            }
            Some(word) if is_word(word) => path.push(word.to_owned()),
            _ => break,
        }
        place += 1;
        let colons = [tokens.get(place), tokens.get(place + 1)].iter().all(|token| token.is_some_and(|it| it == ":"));
        if !colons {
            break;
        }
        place += 2;
    }
    if path.len() > 1 {
        found.push(path);
    }
    place
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}
