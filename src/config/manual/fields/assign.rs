//! The fields of who gets which version: by force, by cohort, or for good.

use super::{
    Field,
    Kind::{Duration, List, Map, Name, Secret, Text, Word},
    REQUIRED,
};

fields! {
    "services.<name>.assign" {
        force [Map("services.<name>.assign.force")] = "none", eg "{ header: x-canary }":
            "Lets a request choose its version; forced requests are no evidence";
        cohorts [List(&[Map("services.<name>.assign.cohorts[]")])] = "none",
            eg "[{ header: x-group, values: [staff], to: canary }]":
            "Groups of clients that have a version of their own; the first that a request is in counts, and they are no evidence";
        sticky [Map("services.<name>.assign.sticky")] = "a fresh draw for each request", eg "{ by: cookie }":
            "Keeps a client on its version; raising the weight moves clients only forward, an abort frees all at "
            "once";
    }
    "services.<name>.assign.force" {
        header [Text] = "this or `cookie`", eg "x-canary":
            "The header whose value chooses: `always`, `never`, or a version's name. Only stable and canary serve: "
            "another version's name, and every word while there is no canary, mean stable";
        cookie [Text] = "this or `header`", eg "canary":
            "The cookie whose value chooses, where the header says nothing";
        from [List(&[Text])] = "everybody, unless there is a secret", eg "[10.0.0.0/8]":
            "Networks of clients who may choose";
        secret [Secret] = "none", eg "${FORCE_SECRET:-}":
            "What others write behind the word, as in `always:SECRET`; versions do not see the header then";
    }
    "services.<name>.assign.cohorts[]" {
        header [Text] = REQUIRED, eg "x-group":
            "The field that tells";
        values [List(&[Text])] = REQUIRED, eg "[staff, beta]":
            "Who has one of these is in the group";
        to [Word(&["canary", "stable"]), Name] = REQUIRED, eg "canary":
            "Where the group goes; to stable while there is no canary";
    }
    "services.<name>.assign.sticky" {
        by [Word(&["cookie", "header", "query", "clientIp"])] = REQUIRED, eg "cookie":
            "By what a client is known. The cookie holds a random id, never a version; a request without the header or "
            "parameter is a fresh draw";
        name [Text] = "serin for a cookie", eg "serin":
            "The name of the cookie, header or parameter";
        ttl [Duration] = "until the browser is closed", eg "1h":
            "How long the client keeps the cookie";
    }
}
