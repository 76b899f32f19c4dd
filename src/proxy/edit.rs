//! Carries out the filters of routes and versions on heads. Decides nothing: which filters there are is the table's.

use http::{
    HeaderMap, HeaderName, HeaderValue, Uri, header,
    request::Parts,
    uri::{self, PathAndQuery},
};

use crate::engine::filter::{HeaderEdits, Rewrite};

/// Changes header fields: set, then added, then removed.
pub(super) fn headers(headers: &mut HeaderMap, edits: &HeaderEdits) {
    for (name, value) in &edits.set {
        headers.insert(name, value.clone());
    }
    for (name, value) in &edits.add {
        headers.append(name, value.clone());
    }
    for name in &edits.remove {
        headers.remove(name);
    }
}

/// Whether fields of this name, which is in lower case, do not stay as they came.
pub(super) fn replaces(edits: &HeaderEdits, name: &[u8]) -> bool {
    let is_it = |one: &HeaderName| one.as_str().as_bytes() == name;
    edits.set.iter().any(|(one, _)| is_it(one)) || edits.remove.iter().any(is_it)
}

/// Puts the host and path that the version is to see into a head in origin-form.
pub(super) fn rewrite(head: &mut Parts, rewrite: &Rewrite, covered: Option<usize>) {
    if let Some(host) = &rewrite.host {
        head.headers.insert(header::HOST, host.clone());
    }
    // `*` is no path that anything could be put before.
    let Some(change) = rewrite.path.as_ref().filter(|_| head.uri.path().starts_with('/')) else { return };
    let path = change.applied_to(head.uri.path(), covered);
    let target = match head.uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    if let Ok(target) = PathAndQuery::try_from(target) {
        let mut parts = uri::Parts::default();
        parts.path_and_query = Some(target);
        head.uri = Uri::from_parts(parts).unwrap_or_else(|_| head.uri.clone());
    }
}

/// Adds a field to those that an answer depends on.
pub(super) fn vary(answer: &mut HeaderMap, field: &'static str) {
    let named = answer.get_all(header::VARY).iter().flat_map(|value| value.as_bytes().split(|&b| b == b','));
    let is_there = named.into_iter().any(|one| one.trim_ascii().eq_ignore_ascii_case(field.as_bytes()));
    if !is_there {
        answer.append(header::VARY, HeaderValue::from_static(field));
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, Request};

    use super::*;
    use crate::engine::filter::PathChange;

    #[test]
    fn fields_are_set_added_and_removed_and_others_stay() {
        let name = HeaderName::from_static;
        let value = HeaderValue::from_static;
        let mut fields = HeaderMap::new();
        for (of, is) in [("x-set", "old"), ("x-set", "older"), ("x-add", "first"), ("x-remove", "a"), ("x-keep", "b")] {
            fields.append(of, value(is));
        }
        let edits = HeaderEdits {
            set: vec![(name("x-set"), value("set-overwrites-values")), (name("x-new"), value("n"))],
            add: vec![(name("x-add"), value("second")), (name("x-add"), value("third")), (name("x-more"), value("m"))],
            remove: vec![name("x-remove"), name("x-absent")],
        };
        headers(&mut fields, &edits);
        let all = |of: &str| fields.get_all(of).iter().map(|is| is.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(all("x-set"), ["set-overwrites-values"]);
        assert_eq!(all("x-add"), ["first", "second", "third"]);
        assert_eq!((all("x-new"), all("x-more"), all("x-keep")), (vec!["n"], vec!["m"], vec!["b"]));
        assert!(all("x-remove").is_empty());
    }

    #[test]
    fn a_rewritten_path_keeps_its_query_and_an_asterisk_stays() {
        let change = |to: &str| Rewrite {
            host: Some(HeaderValue::from_static("inside")),
            path: Some(PathChange::Prefix(to.to_owned())),
        };
        for (uri, to, covered, expected) in [
            ("/a/b?c=/a", "/v1", 2, "/v1/b?c=/a"),
            ("/a", "/", 2, "/"),
            ("/%41/b", "/x", 4, "/x/b"),
            ("*", "/v1", 0, "*"),
        ] {
            let (mut head, ()) = Request::builder().uri(uri).header("host", "outside").body(()).unwrap().into_parts();
            rewrite(&mut head, &change(to), Some(covered));
            assert_eq!((head.uri.to_string().as_str(), head.headers["host"].to_str().unwrap()), (expected, "inside"));
        }
    }

    #[test]
    fn what_an_answer_varies_by_is_said_once() {
        let mut answer = HeaderMap::new();
        answer.insert(header::VARY, HeaderValue::from_static("accept, Origin"));
        vary(&mut answer, "origin");
        assert_eq!(answer.get_all(header::VARY).iter().count(), 1);
        vary(&mut answer, "accept-language");
        assert_eq!(answer.get_all(header::VARY).iter().count(), 2);
    }
}
