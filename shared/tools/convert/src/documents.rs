//! The conversion of all documents together.

use crate::kubelet::{self, Class, KubeletPool};
use crate::metadata;
use crate::object::{self, ObjectKind};
use crate::report::{Log, Problem};
use crate::stream::{self, Chunk};
use crate::yaml::{self, Item, Map, Seq, YamlNode};
use crate::{Conversion, Converted, Options, SourceFile};
use crate::{node_class, node_pool, node_template, provisioner, workload};
use nodeless_model::Template;
use nodeless_model::printable::printable;
use std::collections::BTreeMap;

/// The maximum nesting depth of Lists.
const MAXIMUM_NESTING: usize = 16;

/// Converts files. A document without anything to convert keeps its text, if all of it is printable: it may be printed to a terminal.
#[must_use]
pub fn convert(sources: &[SourceFile], options: &Options) -> Conversion {
    let mut conversion = Conversion::default();
    let mut files = sources.iter().map(|source| read(source, &mut conversion.problems)).collect::<Vec<_>>();
    conversion.read = files.iter().flat_map(|file| &file.objects).filter(|object| object.is_object).count();
    for file in &mut files {
        file.objects.iter_mut().for_each(|object| object.convert(options));
    }
    move_kubelets(&mut files);
    let mut names = BTreeMap::new();
    for file in &mut files {
        file.finish(&mut conversion, &mut names);
    }
    conversion
}

/// A file in parts.
struct File<'t> {
    name: &'t str,
    parts: Vec<Part<'t>>,
    objects: Vec<Object>,
}

/// A document.
struct Part<'t> {
    chunk: Chunk<'t>,
    /// The content, with [`slot`]s in the places of objects; `None` if it is never changed.
    shape: Option<YamlNode>,
}

/// An object of a document.
struct Object {
    kind: ObjectKind,
    /// The objects after the conversion: none, or the object and others that were added.
    nodes: Vec<YamlNode>,
    log: Log,
    changed: bool,
    /// Whether it has a kind.
    is_object: bool,
}

/// The place of an object in a document: its index in the file's objects.
fn slot(index: usize) -> YamlNode {
    YamlNode::text(format!("\u{0}{index}"))
}

fn slot_index(node: &YamlNode) -> Option<usize> {
    node.as_str()?.strip_prefix('\u{0}')?.parse().ok()
}

fn read<'t>(source: &'t SourceFile, problems: &mut Vec<Problem>) -> File<'t> {
    let mut file = File { name: &source.name, parts: Vec::new(), objects: Vec::new() };
    for chunk in stream::split(&source.text) {
        let shape = match yaml::parse(chunk.body) {
            Ok(Some(root)) => read_document(root, source, &chunk, &mut file.objects, problems),
            Ok(None) => None,
            Err(error) => {
                problems.push(match Template::find(chunk.body) {
                    Some(template) => templated(source, chunk.line, &template),
                    None => Problem {
                        source: source.name.clone(),
                        object: None,
                        field: format!("line {}", chunk.line + error.line - 1),
                        problem: format!("it is not YAML that can be read: {}", error.problem),
                    },
                });
                // Other documents of a template would only repeat this.
                return File { name: &source.name, parts: Vec::new(), objects: Vec::new() };
            }
        };
        file.parts.push(Part { chunk, shape });
    }
    file
}

/// `line` is the one at which the document begins.
fn templated(source: &SourceFile, line: usize, template: &Template) -> Problem {
    Problem {
        source: source.name.clone(),
        object: None,
        field: format!("line {}", line + template.line - 1),
        problem: format!("{template}, and convert the result"),
    }
}

/// Replaces the objects of a document by slots.
fn read_document(
    root: YamlNode,
    source: &SourceFile,
    chunk: &Chunk<'_>,
    objects: &mut Vec<Object>,
    problems: &mut Vec<Problem>,
) -> Option<YamlNode> {
    let before = objects.len();
    let shape = place(root, &mut Into { source, objects, problems }, None, 0);
    let old = objects[before..].iter().any(|object| object.kind.is_old());
    // User data and annotations may have braces of their own.
    let templated_at = objects[before..].iter().filter(|object| object.kind.is_old()).any(has_template);
    if old
        && templated_at
        && let Some(template) = Template::find(chunk.body)
    {
        problems.push(templated(source, chunk.line, &template));
        objects.truncate(before);
        return None;
    }
    Some(shape)
}

/// Whether a value of an object has a template expression.
fn has_template(object: &Object) -> bool {
    fn any(node: &YamlNode) -> bool {
        match node {
            YamlNode::Scalar(scalar) => scalar.text.contains("{{"),
            YamlNode::Seq(seq) => seq.items.iter().any(|item| any(&item.value)),
            YamlNode::Map(map) => map.entries.iter().any(|entry| {
                let own = ["userData", "annotations"].contains(&entry.key.text.as_str());
                !own && (entry.key.text.contains("{{") || any(&entry.value))
            }),
        }
    }
    object.nodes.iter().any(any)
}

/// What the objects of a source and its problems are added to.
struct Into<'a> {
    source: &'a SourceFile,
    objects: &'a mut Vec<Object>,
    problems: &'a mut Vec<Problem>,
}

fn place(node: YamlNode, into: &mut Into<'_>, list: Option<(&str, &str)>, depth: usize) -> YamlNode {
    let YamlNode::Map(mut map) = node else { return node };
    let (api_version, kind) = object::head(&map);
    // Items of a typed list have no kind of their own.
    let (api_version, kind) = match list {
        Some((of_list, item)) if kind.is_empty() && !item.is_empty() => {
            let version = if api_version.is_empty() { of_list.to_owned() } else { api_version };
            map.set("apiVersion", YamlNode::text(&version));
            map.set("kind", YamlNode::text(item));
            (version, item.to_owned())
        }
        _ => (api_version, kind),
    };
    if let Some(item) = kind.strip_suffix("List").filter(|_| map.get("items").is_some() && depth < MAXIMUM_NESTING) {
        if let Some(seq) = map.get_mut("items").and_then(YamlNode::as_seq_mut) {
            for member in &mut seq.items {
                let value = std::mem::replace(&mut member.value, YamlNode::text(""));
                member.value = place(value, into, Some((&api_version, item)), depth + 1);
            }
        }
        return YamlNode::Map(map);
    }
    let log = Log::new(&into.source.name, object::described(&map));
    let is_object = !kind.is_empty();
    let kind = ObjectKind::new(&api_version, &kind).unwrap_or_else(|problem| {
        into.problems.push(Problem {
            source: into.source.name.clone(),
            object: Some(log.object().to_owned()),
            field: "apiVersion".to_owned(),
            problem,
        });
        ObjectKind::Other
    });
    into.objects.push(Object { kind, nodes: vec![YamlNode::Map(map)], log, changed: false, is_object });
    slot(into.objects.len() - 1)
}

impl Object {
    fn convert(&mut self, options: &Options) {
        let log = &mut self.log;
        let Some(object) = self.nodes.first_mut().and_then(YamlNode::as_map_mut) else { return };
        self.changed = self.kind.is_old();
        match self.kind {
            ObjectKind::Provisioner => {
                let class = provisioner::convert(object, options, log);
                self.nodes.extend(class);
            }
            ObjectKind::AwsNodeTemplate => node_template::convert(object, options, log),
            ObjectKind::NodePool => node_pool::convert(object, log),
            ObjectKind::Ec2NodeClass => node_class::convert(object, log),
            ObjectKind::Claim => {
                log.lost("", "left out: it is the state of an instance, which a controller writes, and is not applied from a manifest");
                self.nodes.clear();
            }
            ObjectKind::Workload => self.changed = workload::convert(object, log),
            ObjectKind::CurrentNodePool => metadata::check_kubelet(object, log),
            ObjectKind::CurrentEc2NodeClass => metadata::check_ubuntu(object, log),
            ObjectKind::Other => {}
        }
    }
}

/// The kinds that a conversion results in.
fn result_kind(node: &YamlNode) -> Option<&'static str> {
    let (api_version, kind) = object::head(node.as_map()?);
    match (api_version.as_str(), kind.as_str()) {
        ("karpenter.sh/v1", "NodePool") => Some("NodePool"),
        ("karpenter.k8s.aws/v1", "EC2NodeClass") => Some("EC2NodeClass"),
        _ => None,
    }
}

fn move_kubelets(files: &mut [File<'_>]) {
    let mut pools = Vec::new();
    let mut classes = Vec::new();
    let mut places = Vec::new();
    for (file, of_file) in files.iter_mut().enumerate() {
        for (index, object) in of_file.objects.iter_mut().enumerate() {
            let converted = object.kind.is_old();
            let field = match object.kind {
                ObjectKind::Provisioner => "spec.kubeletConfiguration",
                _ => "spec.template.spec.kubelet",
            };
            let mut log = Some(&mut object.log);
            for node in &mut object.nodes {
                match (result_kind(node), node) {
                    (Some("NodePool"), YamlNode::Map(map)) => {
                        if let Some(log) = log.take() {
                            pools.push(KubeletPool { object: map, log, converted, field });
                            places.push((file, index));
                        }
                    }
                    (Some(_), YamlNode::Map(map)) => classes.push(Class { object: map, converted }),
                    _ => {}
                }
            }
        }
    }
    let copies = kubelet::distribute(&mut pools, &mut classes);
    for copy in copies {
        let (file, index) = places[copy.pool];
        files[file].objects[index].nodes.push(copy.object);
    }
}

impl File<'_> {
    /// Writes the file, and adds its objects and reports to the conversion.
    fn finish(&mut self, conversion: &mut Conversion, names: &mut BTreeMap<(&'static str, String), String>) {
        let mut text = String::new();
        for part in std::mem::take(&mut self.parts) {
            let verbatim = printable(part.chunk.verbatim).into_owned();
            let written = part.shape.and_then(|shape| self.write(shape, &part.chunk, &mut conversion.problems));
            text.push_str(&written.unwrap_or(verbatim));
        }
        for object in &mut self.objects {
            conversion.notes.append(&mut object.log.notes);
            let failed = !object.log.problems.is_empty();
            conversion.problems.append(&mut object.log.problems);
            for node in &object.nodes {
                let (Some(kind), Some(map)) = (result_kind(node), node.as_map()) else { continue };
                let name = object::name(map);
                if let Some(other) = names.insert((kind, name.clone()), object.log.object().to_owned()) {
                    conversion.problems.push(Problem {
                        source: object.log.source().to_owned(),
                        object: Some(object.log.object().to_owned()),
                        field: "metadata.name".to_owned(),
                        problem: format!("{kind} {name} is also the result of {other}; rename or remove one of them"),
                    });
                }
                if object.kind.is_old() && !failed {
                    conversion.objects.push(Converted {
                        source: self.name.to_owned(),
                        from: object.log.object().to_owned(),
                        kind,
                        value: node.to_value(),
                    });
                }
            }
        }
        conversion.files.push(SourceFile { name: self.name.to_owned(), text });
    }

    /// The new text of a document; `None` if it keeps its text.
    fn write(&self, shape: YamlNode, chunk: &Chunk<'_>, problems: &mut Vec<Problem>) -> Option<String> {
        let slots = slots(&shape);
        let changed = slots.iter().filter(|index| self.objects[**index].changed).collect::<Vec<_>>();
        let is_printable = printable(chunk.verbatim) == chunk.verbatim;
        if changed.is_empty() && is_printable {
            return None;
        }
        let is_json = chunk.body.trim_start().starts_with('{');
        let nodes = match slot_index(&shape) {
            Some(index) => self.objects[index].nodes.clone(),
            None => vec![self.filled(shape)],
        };
        if is_printable
            && let [node] = nodes.as_slice()
            && changed.iter().all(|index| self.objects[**index].kind == ObjectKind::Workload)
        {
            let renamed = workload::in_text(chunk.verbatim);
            let body = if chunk.marked { &renamed[3..] } else { &renamed };
            if yaml::parse(body).is_ok_and(|read| read.is_some_and(|read| read.to_value() == node.to_value())) {
                return Some(renamed);
            }
        }
        let mut text = String::new();
        for (index, node) in nodes.iter().enumerate() {
            if chunk.marked || index > 0 {
                text.push_str("---\n");
            }
            text.push_str(&written(node, is_json).unwrap_or_else(|| {
                problems.push(Problem {
                    source: self.name.to_owned(),
                    object: None,
                    field: format!("line {}", chunk.line),
                    problem: "the converted object cannot be written as YAML; this is a bug in nodeless".to_owned(),
                });
                String::new()
            }));
        }
        Some(text)
    }

    /// A List with its objects.
    fn filled(&self, node: YamlNode) -> YamlNode {
        let YamlNode::Map(mut map) = node else { return node };
        map.set("apiVersion", YamlNode::text("v1"));
        map.set("kind", YamlNode::text("List"));
        if let Some(seq) = map.get_mut("items").and_then(YamlNode::as_seq_mut) {
            let mut items = Vec::new();
            for item in std::mem::take(&mut seq.items) {
                let Some(index) = slot_index(&item.value) else {
                    let value = self.filled(item.value);
                    items.push(Item { value, comments: item.comments });
                    continue;
                };
                let mut comments = Some(item.comments);
                for node in &self.objects[index].nodes {
                    items.push(Item { comments: comments.take().unwrap_or_default(), value: node.clone() });
                }
            }
            *seq = Seq { items, ..std::mem::take(seq) };
        }
        YamlNode::Map(map)
    }
}

fn slots(node: &YamlNode) -> Vec<usize> {
    if let Some(index) = slot_index(node) {
        return vec![index];
    }
    let items = node.as_map().and_then(|map: &Map| map.get("items")).and_then(YamlNode::as_seq);
    items.map_or_else(Vec::new, |seq| seq.items.iter().flat_map(|item| slots(&item.value)).collect())
}

/// The text of an object: with its comments, or plain if that has another value.
fn written(node: &YamlNode, is_json: bool) -> Option<String> {
    let value = node.to_value();
    let same = |text: &str| yaml::parse(text).is_ok_and(|read| read.is_some_and(|read| read.to_value() == value));
    let with_comments = (!is_json).then(|| yaml::write(node)).filter(|text| same(text));
    with_comments.or_else(|| Some(yaml::write(&yaml::plain(node))).filter(|text| same(text)))
}
