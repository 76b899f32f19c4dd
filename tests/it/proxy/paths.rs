//! The fast path against the ordinary one: whatever comes from either side, both send the same on and count the same.
//! Fields are compared in order by name; what a body was cut into is not compared.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serin::{
    measure::{FastPathOutcome, RefusedReason, slot::Ending},
    publish::ListenerSettings,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use super::{
    cases::{ASKED, TOLD, Then},
    rig::{Rig, eventually, limits, listener, nobody, scripted, service, soon},
};

/// Ends the connection behind a case, so that nothing has to be waited for.
const LAST: &[u8] = b"GET /last HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
/// A request that cannot be whole is ended by the proxy after this.
const SILENCE: Duration = Duration::from_millis(1_500);
/// Cases under way at once.
const AT_ONCE: usize = 12;

/// A message: its first line, its fields by name, and its body as far as it came.
pub type Message = (String, Vec<String>, String, bool);

/// What one path made of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub client: Vec<Message>,
    pub upstream: Vec<Message>,
    endings: Vec<u64>,
    refused: Vec<u64>,
}

/// A case: what the client sends, what an upstream answers to anything but the last request, and under which table.
#[derive(Debug, Clone, Default)]
pub struct Case {
    pub name: String,
    pub asked: Vec<u8>,
    pub told: Option<(Vec<u8>, Then)>,
    /// A file, in which `V1` and `V2` are upstreams and nobody listens at `NOBODY`. Then only `V2` answers with `told`.
    pub file: Option<String>,
}

/// `{x*3}` is `xxx`.
pub fn expand(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, (part, after))) =
        rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        let Some((text, times)) = part.rsplit_once('*').and_then(|(text, times)| Some((text, times.parse().ok()?)))
        else {
            bytes.extend(format!("{before}{{").bytes());
            rest = &rest[before.len() + 1..];
            continue;
        };
        bytes.extend(before.bytes());
        bytes.extend(text.repeat(times).bytes());
        rest = after;
    }
    bytes.extend(rest.bytes());
    bytes
}

/// Takes a head off the front.
fn head(bytes: &[u8]) -> Option<(String, Vec<String>, &[u8])> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = text.split("\r\n").map(str::to_owned);
    let first = lines.next()?;
    let mut fields: Vec<String> = lines.collect();
    let name = |field: &String| field.split(':').next().unwrap_or_default().to_owned();
    fields.sort_by_key(name);
    Some((first, fields, &bytes[end + 4..]))
}

fn value<'f>(fields: &'f [String], name: &str) -> Option<&'f str> {
    fields.iter().find_map(|field| field.strip_prefix(name)?.strip_prefix(": "))
}

/// The data of chunks, what follows them, and whether they were whole.
fn unchunk(mut bytes: &[u8]) -> (Vec<u8>, &[u8], bool) {
    let mut data = Vec::new();
    loop {
        let Some(line) = bytes.windows(2).position(|two| two == b"\r\n") else { return (data, bytes, false) };
        let size = std::str::from_utf8(&bytes[..line]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let rest = &bytes[line + 2..];
        match size {
            Some(0) => {
                let end = rest.windows(2).position(|two| two == b"\r\n").filter(|&at| at == 0);
                let trailers = rest.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 2);
                return match end.or(trailers) {
                    Some(at) => (data, &rest[at + 2..], true),
                    None => (data, rest, false),
                };
            }
            Some(size) if rest.len() >= size + 2 => {
                data.extend_from_slice(&rest[..size]);
                bytes = &rest[size + 2..];
            }
            Some(_) => {
                data.extend_from_slice(rest);
                return (data, b"", false);
            }
            None => return (data, bytes, false),
        }
    }
}

/// The answers that a client got. Where one ends is told by the start of the next.
fn answers(mut bytes: &[u8]) -> Vec<Message> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let Some((first, fields, rest)) = head(bytes) else {
            all.push((String::new(), Vec::new(), bytes.escape_ascii().to_string(), false));
            break;
        };
        let next = rest.windows(9).position(|nine| nine == b"HTTP/1.1 ").unwrap_or(rest.len());
        let (body, is_whole) = if value(&fields, "transfer-encoding").is_some() {
            let (data, _, is_whole) = unchunk(&rest[..next]);
            (data, is_whole)
        } else {
            (rest[..next].to_vec(), true)
        };
        bytes = &rest[next..];
        all.push((first, fields, body.escape_ascii().to_string(), is_whole));
    }
    all
}

/// Reads requests and answers them.
async fn upstream(
    name: &'static str,
    mut stream: TcpStream,
    told: Option<(Vec<u8>, Then)>,
    seen: Arc<Mutex<Vec<Message>>>,
) {
    let mut bytes = Vec::new();
    loop {
        let Some(mut request) = next_request(&mut stream, &mut bytes).await else { return };
        let (first, is_last) = (request.0.clone(), request.0.contains(" /last "));
        request.0 = format!("{name}: {first}");
        seen.lock().unwrap().push(request);
        let (answer, then) = match &told {
            Some(told) if !is_last => told.clone(),
            _ => {
                let body = if first.starts_with("HEAD ") { "" } else { &first };
                let length = first.len();
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Up: 1\r\nContent-Length: {length}\r\n");
                (format!("{head}\r\n{body}").into_bytes(), Then::Keep)
            }
        };
        if stream.write_all(&answer).await.is_err() {
            return;
        }
        match then {
            Then::Keep => {}
            Then::Close => return,
            Then::Reset => return drop(socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))),
        }
    }
}

/// A whole request; none at the end, or when there is no reading it.
async fn next_request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<Message> {
    loop {
        if let Some((first, fields, rest)) = head(bytes) {
            let length = value(&fields, "content-length").map_or(0, |length| length.parse().unwrap_or(usize::MAX));
            let (body, left) = if value(&fields, "transfer-encoding").is_some() {
                let (data, left, is_whole) = unchunk(rest);
                (is_whole.then_some(data), left)
            } else {
                (rest.get(..length).map(<[u8]>::to_vec), rest.get(length..).unwrap_or_default())
            };
            if let Some(body) = body {
                let left = left.to_vec();
                *bytes = left;
                return Some((first, fields, body.escape_ascii().to_string(), true));
            }
        }
        if stream.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// Runs a case over one path. Also says how many requests the fast path served.
async fn over(fast_path: bool, case: &Case) -> (Seen, u64) {
    let seen = Arc::<Mutex<Vec<Message>>>::default();
    let start = |name: &'static str, told: Option<(Vec<u8>, Then)>| {
        let kept = Arc::clone(&seen);
        scripted(move |_, stream| upstream(name, stream, told.clone(), Arc::clone(&kept)))
    };
    let is_told = case.file.is_none();
    let v1 = start("v1", case.told.clone().filter(|_| is_told)).await;
    let v2 = start("v2", case.told.clone()).await;
    let limits =
        serin::proxy::Limits { header_timeout: SILENCE, body_timeout: SILENCE, idle_timeout: SILENCE, ..limits() };
    let mut rig = Rig::with_settings(service(v1, v2), ListenerSettings { limits, fast_path, ..listener() });
    if let Some(file) = &case.file {
        let places = [("V1", v1), ("V2", v2), ("NOBODY", nobody())];
        rig.publish_file(&places.iter().fold(file.clone(), |file, (name, at)| file.replace(name, &at.to_string())));
    }
    let mut client = rig.connect().await;
    // It may end the connection before it has read all.
    let _sent = client.write_all(&[&case.asked, LAST].concat()).await;
    let mut got = Vec::new();
    let _reset = soon(client.read_to_end(&mut got)).await;
    let count = |ending: Ending| rig.endings("v1", ending) + 1_000 * rig.endings("v2", ending);
    let all =
        || rig.hub.slots().iter().flat_map(|slot| Ending::ALL.map(|of| slot.ending_total(of as usize))).sum::<u64>();
    let started = || rig.hub.slots().iter().map(|slot| slot.started_total()).sum::<u64>();
    eventually("all ended", || all() >= started()).await;
    let served = rig.hub.fast_path_total(FastPathOutcome::Served);
    let mut upstream = seen.lock().unwrap().clone();
    for (_, fields, ..) in &mut upstream {
        // A client of HTTP/1.0 may name no host.
        for field in fields {
            *field = field.replace(&v1.to_string(), "upstream").replace(&v2.to_string(), "upstream");
        }
    }
    let mut client = answers(&got);
    for (_, fields, ..) in &mut client {
        // Ids that are handed out are random.
        for field in fields {
            if let Some((before, id)) = field.clone().split_once("serin=") {
                *field = format!("{before}serin={}", id.get(16..).unwrap_or_default());
            }
        }
    }
    // The answers of one path may come a second after those of the other.
    let this_year = jiff::Timestamp::now().strftime(" %Y ").to_string();
    for field in client.iter_mut().flat_map(|(_, fields, ..)| fields) {
        if field.starts_with("date: ") && field.contains(&this_year) {
            "date: now".clone_into(field);
        }
    }
    let seen = Seen {
        client,
        upstream,
        endings: Ending::ALL.map(count).to_vec(),
        refused: RefusedReason::ALL.map(|reason| rig.hub.refused_total(reason)).to_vec(),
    };
    (seen, served)
}

/// Runs a case over both paths. A difference counts when it comes twice: who closes first is sometimes chance.
async fn both(case: Case) -> (Case, Seen, u64) {
    let mut again = false;
    loop {
        let (ordinary, none) = over(false, &case).await;
        let (fast, served) = over(true, &case).await;
        assert_eq!(none, 0);
        if ordinary == fast {
            return (case, fast, served);
        }
        let asked = String::from_utf8_lossy(&case.asked).into_owned();
        if again {
            let told = case.told.as_ref().map(|(bytes, then)| (short(&String::from_utf8_lossy(bytes)), then));
            let (ordinary, fast) = (short(&format!("{ordinary:?}")), short(&format!("{fast:?}")));
            panic!("{}: {:?} {told:?}\n  ordinary {ordinary}\n  fast     {fast}", case.name, short(&asked));
        }
        again = true;
    }
}

/// Runs cases, a few at once, and gives what came of each to `look`. Returns how many requests the fast path served. Says
/// all that is wrong at once.
pub async fn compare(cases: Vec<Case>, look: impl Fn(&Case, &Seen)) -> u64 {
    let (mut served, mut different) = (0, 0);
    let mut running = JoinSet::new();
    let mut cases = cases.into_iter();
    loop {
        while running.len() < AT_ONCE
            && let Some(case) = cases.next()
        {
            running.spawn(both(case));
        }
        let Some(done) = running.join_next().await else { break };
        let Ok((case, seen, fast)) = done else {
            different += 1;
            continue;
        };
        look(&case, &seen);
        served += fast;
    }
    assert_eq!(different, 0, "cases that differ; each has said how");
    served
}

/// The start of a text that may be long.
fn short(text: &str) -> String {
    text.chars().take(2_000).collect()
}

fn status(seen: &Seen) -> u16 {
    seen.client.first().and_then(|(first, ..)| first.get(9..12)?.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn requests_that_are_easy_to_get_wrong_come_to_the_same_over_both_paths() {
    let case = |asked: &super::cases::Asked| Case {
        name: asked.name.to_owned(),
        asked: expand(asked.bytes),
        ..Case::default()
    };
    let served = compare(ASKED.iter().map(case).collect(), |case, seen| {
        let asked = ASKED.iter().find(|asked| asked.name == case.name).unwrap();
        assert!(asked.allow.contains(&status(seen)), "{}: {seen:?}", case.name);
        let reached = seen.upstream.iter().any(|(first, ..)| !first.contains(" /last "));
        assert!(asked.reaches || !reached, "{}: {seen:?}", case.name);
        assert!(!seen.upstream.iter().any(|(first, ..)| first.contains("smuggled")), "{}: {seen:?}", case.name);
    })
    .await;
    assert!(served >= 40, "the fast path served {served}");
}

#[tokio::test]
async fn answers_that_are_easy_to_get_wrong_come_to_the_same_over_both_paths() {
    let mut cases = Vec::new();
    for told in TOLD {
        for method in ["GET", "HEAD", "POST"] {
            cases.push(Case {
                name: format!("{method} {}", told.name),
                asked: format!("{method} /f HTTP/1.1\r\nHost: t\r\n\r\n").into_bytes(),
                told: Some((expand(told.bytes), told.then)),
                file: None,
            });
        }
    }
    let all = cases.len() as u64;
    let served = compare(cases, |case, seen| {
        let told =
            TOLD.iter().find(|told| case.name.split_once(' ').is_some_and(|(_, name)| name == told.name)).unwrap();
        let may = told.allow.contains(&status(seen)) || case.name.starts_with("HEAD");
        assert!(may, "{}: {seen:?}", case.name);
    })
    .await;
    assert!(served >= all, "the fast path served {served} requests of {all} cases");
}

/// One change to bytes: of a few, or of a line.
fn mutate(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    const STRANGE: &[&[u8]] = &[
        b"\r",
        b"\n",
        b"\r\n",
        b" ",
        b"\t",
        b":",
        b"0",
        b"9",
        b",",
        b";",
        b"\0",
        b"\x7f",
        b"\xff",
        b"/",
        b"?",
        b"#",
        b"%",
        b"X",
        b"close",
        b"chunked",
        b"HTTP/1.0",
        b"Connection: close\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"X-Forwarded-For: 6.6.6.6\r\n",
        b"Cookie: a=b\r\n",
        b"Via: 1.0 x\r\n",
        b"Host: u\r\n",
        b"Expect: 100-continue\r\n",
    ];
    let at = random.usize(..=bytes.len());
    match random.u8(..5) {
        0 => drop(bytes.splice(at..at, random.choice(STRANGE).copied().unwrap_or_default().iter().copied())),
        1 => drop(bytes.drain(at..(at + random.usize(1..4)).min(bytes.len()))),
        2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.u8(..);
            }
        }
        3 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 0x20;
            }
        }
        _ => {
            let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&b| b == b'\n').collect();
            let (from, to) = (random.usize(..lines.len().max(1)), random.usize(..lines.len().max(1)));
            if let Some(&line) = lines.get(from) {
                lines.insert(to, line);
            }
            *bytes = lines.concat();
        }
    }
}

/// Cases of both kinds with up to three changes, the same in every run.
fn mutated(seed: u64, count: usize) -> Vec<Case> {
    let mut random = fastrand::Rng::with_seed(seed);
    let short = |bytes: &&str| bytes.len() < 1_000 && !bytes.contains('*');
    let asked: Vec<&str> = ASKED.iter().map(|asked| asked.bytes).filter(short).collect();
    let told: Vec<_> = TOLD.iter().filter(|told| short(&told.bytes) && !told.bytes.is_empty()).collect();
    let mut cases = Vec::new();
    for nth in 0..count {
        let mut case = Case { name: format!("seed {seed}, case {nth}"), ..Case::default() };
        if nth % 3 == 0 {
            let told = random.choice(&told).unwrap();
            let mut bytes = told.bytes.as_bytes().to_vec();
            (0..random.u8(1..4)).for_each(|_| mutate(&mut bytes, &mut random));
            case.asked = b"GET /f HTTP/1.1\r\nHost: t\r\n\r\n".to_vec();
            case.told = Some((bytes, Then::Close));
        } else {
            case.asked = random.choice(&asked).unwrap().as_bytes().to_vec();
            (0..random.u8(1..4)).for_each(|_| mutate(&mut case.asked, &mut random));
        }
        cases.push(case);
    }
    cases
}

#[tokio::test]
async fn damaged_requests_and_answers_come_to_the_same_over_both_paths() {
    // More by hand: `SERIN_CASES=5000 SERIN_SEED=7 cargo test --test it paths::damaged`.
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let cases = mutated(number("SERIN_SEED", 1), usize::try_from(number("SERIN_CASES", 200)).unwrap());
    let all = cases.len() as u64;
    let served = compare(cases, |_, _| {}).await;
    assert!(served > all / 4, "the fast path served {served} requests of {all} cases");
}
