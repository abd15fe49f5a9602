//! The rules of CONTRIBUTING.md about the size and the names of functions, modules and folders, for every Rust file of the project.

use crate::architecture::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};

const LINES_OF_A_FUNCTION: usize = 70;
const LINES_OF_A_MODULE: usize = 500;
const FILES_OF_A_FOLDER: usize = 15;
/// Number of types that may have one exported name.
const TYPES_OF_A_NAME: usize = 4;

#[test]
fn sources_hold_the_rules_of_style() {
    let found = violations(&sources());
    assert!(found.is_empty(), "these violate the rules of CONTRIBUTING.md, section Rules; change them: {found:#?}");
}

#[test]
fn every_kind_of_violation_is_found() {
    let long = format!("impl A {{ fn long() {{\n{} }} }}", "let x = 1;\n".repeat(LINES_OF_A_FUNCTION));
    let text = format!("{long}\nfn f(&(a, b): &(u8, u8)) {{}}\npub struct Name;\nimpl Name {{ fn of() {{}} }}\n");
    let files: BTreeMap<String, String> =
        (0..=FILES_OF_A_FOLDER).map(|n| (format!("src/{n}.rs"), text.clone())).collect();
    let module = BTreeMap::from([("lib.rs".to_owned(), "\n".repeat(LINES_OF_A_MODULE + 1))]);
    let found = violations(&files).into_iter().filter(|line| !line.contains(".rs") || line.contains("/0.rs"));
    let expected = [
        "common name: Name",
        "function named of: src/0.rs Name::of",
        "large folder: src",
        "long function: src/0.rs A::long",
        "tuple parameter: src/0.rs f",
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(violations(&module), BTreeSet::from(["long module: lib.rs".to_owned()]));
}

/// The text of each Rust file of the project, by its path below the root.
fn sources() -> BTreeMap<String, String> {
    let paths = crate::architecture::paths();
    let rust = paths.into_iter().filter(|path| Path::new(path).extension().is_some_and(|kind| kind == "rs"));
    rust.map(|path| (path.clone(), fs::read_to_string(root().join(path)).unwrap())).collect()
}

fn violations(sources: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut violations = BTreeSet::new();
    let mut names: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut folders: BTreeMap<&Path, usize> = BTreeMap::new();
    for (path, text) in sources {
        *folders.entry(Path::new(path).parent().unwrap()).or_default() += 1;
        let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        if shipped.lines().count() > LINES_OF_A_MODULE {
            violations.insert(format!("long module: {path}"));
        }
        let mut file = File { path, within: Vec::new(), violations: &mut violations, exported: BTreeSet::new() };
        file.visit_file(&syn::parse_file(text).unwrap());
        for name in file.exported {
            names.entry(name).or_default().insert(path);
        }
    }
    let large = folders.iter().filter(|(_, files)| **files > FILES_OF_A_FOLDER);
    violations.extend(large.map(|(folder, _)| format!("large folder: {}", folder.display())));
    let common = names.iter().filter(|(_, paths)| paths.len() > TYPES_OF_A_NAME);
    violations.extend(common.map(|(name, _)| format!("common name: {name}")));
    violations
}

/// What is found in one file.
struct File<'a> {
    path: &'a str,
    /// The modules and types around the item.
    within: Vec<String>,
    violations: &'a mut BTreeSet<String>,
    exported: BTreeSet<String>,
}

impl File<'_> {
    fn check(&mut self, signature: &syn::Signature, block: Option<&syn::Block>) {
        let name = signature.ident.to_string();
        let item = [&self.within[..], std::slice::from_ref(&name)].concat().join("::");
        let mut violation = |kind: &str| self.violations.insert(format!("{kind}: {} {item}", self.path));
        let first = signature.fn_token.span.start().line;
        if block.is_some_and(|block| block.brace_token.span.close().end().line + 1 - first > LINES_OF_A_FUNCTION) {
            violation("long function");
        }
        if signature.inputs.iter().any(|input| matches!(input, syn::FnArg::Typed(typed) if is_tuple(&typed.pat))) {
            violation("tuple parameter");
        }
        if name == "of" {
            violation("function named of");
        }
    }

    fn export(&mut self, visibility: &syn::Visibility, name: &syn::Ident) {
        if !matches!(visibility, syn::Visibility::Inherited) {
            self.exported.insert(name.to_string());
        }
    }
}

fn is_tuple(pattern: &syn::Pat) -> bool {
    match pattern {
        syn::Pat::Tuple(_) => true,
        syn::Pat::Reference(reference) => is_tuple(&reference.pat),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for File<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.within.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.within.pop();
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let last = if let syn::Type::Path(path) = &*item.self_ty { path.path.segments.last() } else { None };
        self.within.push(last.map_or_else(|| "impl".to_owned(), |segment| segment.ident.to_string()));
        visit::visit_item_impl(self, item);
        self.within.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check(&item.sig, Some(&item.block));
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check(&item.sig, Some(&item.block));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.check(&item.sig, item.default.as_ref());
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.export(&item.vis, &item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.export(&item.vis, &item.ident);
    }
}
