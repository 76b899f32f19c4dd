//! Objects of the input as trees in which every value knows its place in the ledger.
//! Refuses nothing: what has no kind is an object of no kind.

use std::ops::Range;

use super::ledger::Ledger;
use crate::config::yaml;

/// A value of the input.
#[derive(Debug)]
pub(super) struct Item {
    /// All leaves below it, or itself.
    pub(super) leaves: Range<usize>,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Null,
    Text(String),
    List(Vec<Item>),
    Map(Vec<(String, Item)>),
}

/// A top-level object.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) item: Item,
}

/// All objects, in the order of the input.
#[derive(Debug, Default)]
pub(super) struct Objects(Vec<Object>);

impl Item {
    /// A field of this mapping; the first of that name.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.fields().iter().find(|(name, _)| name == key).map(|(_, item)| item)
    }

    /// A field further down.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |item, key| item.get(key))
    }

    /// The text of a single value.
    pub(super) fn text(&self) -> Option<&str> {
        if let Content::Text(text) = &self.content { Some(text) } else { None }
    }

    /// Whether it is `true`.
    pub(super) fn is_true(&self) -> bool {
        self.text() == Some("true")
    }

    /// The items, if it is a list.
    pub(super) fn items(&self) -> &[Self] {
        if let Content::List(items) = &self.content { items } else { &[] }
    }

    /// The fields, if it is a mapping.
    pub(super) fn fields(&self) -> &[(String, Self)] {
        if let Content::Map(fields) = &self.content { fields } else { &[] }
    }

    /// The items of a list further down; none if there is none.
    pub(super) fn list(&self, path: &[&str]) -> &[Self] {
        self.at(path).map_or(&[], Self::items)
    }
}

impl Object {
    /// Something below `spec`.
    pub(super) fn spec(&self, path: &[&str]) -> Option<&Item> {
        self.item.get("spec")?.at(path)
    }

    /// Its namespace, which becomes a part of host names.
    pub(super) fn namespace(&self, ledger: &mut Ledger) -> Option<&str> {
        let item = self.item.at(&["metadata", "namespace"])?;
        ledger.kept(item, "part of the endpoints' host names");
        item.text()
    }
}

impl Objects {
    /// Takes a document over; of a `List` its items.
    pub(super) fn add(&mut self, root: &yaml::Node, file: usize, ledger: &mut Ledger) {
        let kind = field(root, "kind").unwrap_or_default();
        let items = match &root.value {
            yaml::Value::Map(fields) if kind.ends_with("List") => fields.iter().find(|field| field.key == "items"),
            _ => None,
        };
        let (Some(items), yaml::Value::Map(fields)) = (items, &root.value) else {
            return self.add_one(root, file, ledger);
        };
        for field in fields.iter().filter(|field| !std::ptr::eq(*field, items)) {
            let item = grow(&field.node, file, &kind, &field.key, ledger);
            ledger.kept(&item, "says that this is a list of objects");
        }
        match &items.node.value {
            yaml::Value::List(objects) if !objects.is_empty() => {
                for object in objects {
                    self.add_one(object, file, ledger);
                }
            }
            _ => self.add_one(&items.node, file, ledger),
        }
    }

    /// Those of a kind.
    pub(super) fn all<'s>(&'s self, kind: &'s str) -> impl Iterator<Item = &'s Object> {
        self.0.iter().filter(move |object| object.kind == kind)
    }

    /// One by kind and name.
    pub(super) fn named<'s>(&'s self, kind: &'s str, name: &str) -> Option<&'s Object> {
        self.all(kind).find(|object| object.name == name)
    }

    /// The first port of a Service in the input.
    pub(super) fn port(&self, service: &str, ledger: &mut Ledger) -> Option<u16> {
        let object = self.named("Service", service)?;
        let port = object.spec(&["ports"])?.items().first()?.get("port")?;
        let number = port.text()?.parse().ok().filter(|port| *port > 0)?;
        ledger.kept(port, "the port of the endpoint");
        ledger.kept_field(object, &["metadata", "name"], "the host of the endpoint");
        Some(number)
    }

    fn add_one(&mut self, root: &yaml::Node, file: usize, ledger: &mut Ledger) {
        let kind = field(root, "kind").unwrap_or_default();
        let metadata = match &root.value {
            yaml::Value::Map(fields) => fields.iter().find(|field| field.key == "metadata"),
            _ => None,
        };
        let name = metadata.and_then(|metadata| field(&metadata.node, "name")).unwrap_or_default();
        let label = match (&*kind, &*name) {
            ("", "") => String::new(),
            (kind, "") => kind.to_owned(),
            ("", name) => name.to_owned(),
            (kind, name) => format!("{kind}/{name}"),
        };
        let item = grow(root, file, &label, "", ledger);
        self.0.push(Object { kind, name, item });
    }
}

fn field(node: &yaml::Node, key: &str) -> Option<String> {
    let yaml::Value::Map(fields) = &node.value else { return None };
    match &fields.iter().find(|field| field.key == key)?.node.value {
        yaml::Value::Scalar(scalar) => Some(scalar.text.clone()),
        _ => None,
    }
}

/// Copies a tree, with each leaf entered in the ledger. It is at most as deep as the YAML reader admits.
fn grow(node: &yaml::Node, file: usize, object: &str, path: &str, ledger: &mut Ledger) -> Item {
    let start = ledger.len();
    let content = match &node.value {
        yaml::Value::List(items) if !items.is_empty() => Content::List(
            items
                .iter()
                .enumerate()
                // People count from 1.
                .map(|(index, item)| grow(item, file, object, &format!("{path}[{}]", index + 1), ledger))
                .collect(),
        ),
        yaml::Value::Map(fields) if !fields.is_empty() => Content::Map(
            fields
                .iter()
                .map(|field| {
                    let below = below(path, &field.key);
                    (field.key.clone(), grow(&field.node, file, object, &below, ledger))
                })
                .collect(),
        ),
        value => {
            ledger.enter(file, node.span.start, object, path);
            match value {
                yaml::Value::Scalar(scalar) => Content::Text(scalar.text.clone()),
                yaml::Value::List(_) => Content::List(Vec::new()),
                yaml::Value::Map(_) => Content::Map(Vec::new()),
                yaml::Value::Null | yaml::Value::Unresolved => Content::Null,
            }
        }
    };
    Item { leaves: start..ledger.len(), content }
}

/// Longest key in a path, in characters.
const KEY_MAX: usize = 128;

fn below(path: &str, key: &str) -> String {
    let key: &str = key.char_indices().nth(KEY_MAX).map_or(key, |(end, _)| &key[..end]);
    let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}
