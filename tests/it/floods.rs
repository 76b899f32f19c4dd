//! Floods of HTTP/2, and a process without descriptors: what a client may send for nothing costs a bounded amount of
//! memory, everybody else is served meanwhile, and all is as before once it is over.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    harness::{Client, Serin, eventually},
    upstreams::Plain,
};

/// More memory than this for one flood is amplification.
const MEMORY_MAX_KIB: u64 = 96 * 1024;
/// How much of a flood is sent at most; one that is let through whole has to fit into the memory too.
const FLOOD_BYTES: usize = 24 * 1024 * 1024;
/// A flood stands when nothing of it is taken for so long.
const STUCK: Duration = Duration::from_millis(500);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// `GET http://a/`, in HPACK without Huffman and without a table.
const GET: &[u8] = b"\x82\x86\x84\x01\x01a";
/// `POST http://a/`.
const POST: &[u8] = b"\x83\x86\x84\x01\x01a";

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    resident.trim().trim_end_matches(" kB").parse().unwrap()
}

/// An open HTTP/2 connection.
fn open(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_write_timeout(Some(STUCK)).unwrap();
    stream.set_read_timeout(Some(STUCK)).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    stream
}

/// Sends what comes of each number, until the flood is over, is stuck, or the connection ends.
fn flood(stream: &mut TcpStream, each: impl Fn(u32) -> Vec<u8>) {
    let mut sent = 0;
    for first in (0..).step_by(64) {
        let bytes: Vec<u8> = (first..first + 64).flat_map(&each).collect();
        if stream.write_all(&bytes).is_err() {
            return;
        }
        sent += bytes.len();
        if sent >= FLOOD_BYTES || first >= 200_000 {
            return;
        }
    }
}

/// The frames that come until there are none for a while, by kind and error code.
fn frames(stream: &mut TcpStream) -> Vec<(u8, u32)> {
    let mut bytes = Vec::new();
    let mut some = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut some) {
            Ok(0) => break,
            Ok(n) => bytes.extend_from_slice(&some[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let mut all = Vec::new();
    let mut rest = &bytes[..];
    while rest.len() >= 9 {
        let length = usize::from(rest[0]) << 16 | usize::from(rest[1]) << 8 | usize::from(rest[2]);
        let Some(payload) = rest.get(9..9 + length) else { break };
        let word = |at: usize| payload.get(at..at + 4).map_or(0, |four| u32::from_be_bytes(four.try_into().unwrap()));
        all.push((rest[3], if rest[3] == GOAWAY { word(4) } else { word(0) }));
        rest = &rest[9 + length..];
    }
    all
}

/// Others are served while the flood's connection is open, the memory is bounded, and nothing is left over.
fn is_harmless(each: impl Fn(u32) -> Vec<u8>) -> Vec<(u8, u32)> {
    let plain = Plain::start("v1");
    let serin = Serin::start(&plain.services());
    assert_eq!(Client::get(serin.port, "/").unwrap().status, 200);
    let before = resident_kib(serin.pid());
    let mut stream = open(serin.port);
    flood(&mut stream, each);
    assert_eq!(Client::get(serin.port, "/").unwrap().status, 200, "while the flood is open");
    let told = frames(&mut stream);
    drop(stream);
    assert_eq!(Client::get(serin.port, "/").unwrap().status, 200, "after the flood");
    let grown = resident_kib(serin.pid()) - before;
    assert!(grown < MEMORY_MAX_KIB, "{grown} KiB for {FLOOD_BYTES} bytes at most");
    eprintln!("grown by {grown} KiB; {} frames came back", told.len());
    told
}

#[test]
fn a_rapid_reset_is_told_to_calm_down() {
    let told = is_harmless(|nth| {
        let stream = 2 * nth + 1;
        let opened = frame(HEADERS, END_STREAM | END_HEADERS, stream, GET);
        [opened, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
    });
    assert!(told.contains(&(GOAWAY, 11)), "no ENHANCE_YOUR_CALM in {told:?}");
}

#[test]
fn a_head_that_never_ends_is_not_kept() {
    let told = is_harmless(|nth| match nth {
        0 => frame(HEADERS, END_STREAM, 1, GET),
        // Fields that are neither indexed nor too large by themselves.
        _ => frame(CONTINUATION, 0, 1, &b"\x00\x04abcd\x04efgh".repeat(1_000)),
    });
    assert!(told.iter().any(|(kind, _)| *kind == GOAWAY), "{told:?}");
}

#[test]
fn empty_continuations_are_counted() {
    is_harmless(|nth| if nth == 0 { frame(HEADERS, END_STREAM, 1, GET) } else { frame(CONTINUATION, 0, 1, &[]) });
}

#[test]
fn settings_whose_acknowledgements_nobody_reads_are_not_piled_up() {
    is_harmless(|_| frame(SETTINGS, 0, 0, &[]));
}

#[test]
fn pings_whose_answers_nobody_reads_are_not_piled_up() {
    is_harmless(|_| frame(PING, 0, 0, &[7; 8]));
}

#[test]
fn empty_pieces_of_a_body_are_not_kept() {
    is_harmless(|nth| if nth == 0 { frame(HEADERS, END_HEADERS, 1, POST) } else { frame(DATA, 0, 1, &[]) });
}

#[test]
fn window_updates_for_nothing_end_the_connection_or_nothing() {
    is_harmless(|_| frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()));
}

#[test]
fn more_streams_than_were_allowed_never_reach_an_upstream_at_once() {
    const LIMIT: usize = 16;
    // Takes requests and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, open_now) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let (now, most) = (Arc::clone(&open_now), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, now, seen) = (stream.unwrap(), Arc::clone(&now), Arc::clone(&seen));
            seen.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
            thread::spawn(move || {
                let _end = stream.read_to_end(&mut Vec::new());
                now.fetch_sub(1, SeqCst);
            });
        }
    });
    let mut serin = Serin::prepare("");
    let listeners =
        format!("listeners: [{{ name: a, listen: \"127.0.0.1:{}\", limits: {{ h2Streams: {LIMIT} }} }}]", serin.port);
    serin.write_with(
        &listeners,
        &format!("services: {{ web: {{ versions: {{ v1: \"http://{address}\" }}, stable: v1 }} }}\n"),
    );
    serin.spawn();
    serin.ready();
    let mut stream = open(serin.port);
    let opened: Vec<u8> =
        (0..1_000).flat_map(|nth| frame(HEADERS, END_STREAM | END_HEADERS, 2 * nth + 1, GET)).collect();
    let _refused = stream.write_all(&opened);
    eventually("the allowed streams at the upstream", || (most.load(SeqCst) >= LIMIT / 2).then_some(()));
    let told = frames(&mut stream);
    assert!(
        told.contains(&(RST_STREAM, 7)) || told.iter().any(|(kind, _)| *kind == GOAWAY),
        "nobody was refused: {told:?}"
    );
    assert!(most.load(SeqCst) <= 2 * LIMIT, "{} at once", most.load(SeqCst));
    drop(stream);
    eventually("what was under way to be given up", || (open_now.load(SeqCst) == 0).then_some(()));
}

fn counted(admin: &mut Client, name: &str) -> f64 {
    let answer = admin.send("/metrics", &[]).unwrap();
    let text = String::from_utf8(answer.body).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn without_descriptors_accepting_pauses_and_goes_on_once_there_are_some() {
    const FAILURES: f64 = 8.0;
    let plain = Plain::start("v1");
    let mut serin = Serin::prepare(&plain.services());
    serin.spawn_limited("-n 70");
    serin.ready();
    // Open before there are none left.
    let mut admin = Client::connect(serin.admin).unwrap();
    assert!(counted(&mut admin, "serin_accept_failures_total") < 1.0);
    let idle: Vec<_> = (0..120).map(|_| TcpStream::connect(("127.0.0.1", serin.port)).unwrap()).collect();
    eventually("no descriptors", || (counted(&mut admin, "serin_accept_failures_total") > 0.0).then_some(()));
    let (start, first) = (Instant::now(), counted(&mut admin, "serin_accept_failures_total"));
    let more = eventually("more failures", || {
        let more = counted(&mut admin, "serin_accept_failures_total") - first;
        (more >= FAILURES).then_some(more)
    });
    // A spin would have made them in no time; a slow machine only takes longer.
    assert!(start.elapsed().as_secs_f64() >= (more - 1.0) * 0.09, "{more} failures within {:?}", start.elapsed());
    drop(idle);
    eventually("a new client to be served", || Client::get(serin.port, "/").ok().filter(|answer| answer.status == 200));
    let said = serin.log().matches("cannot accept for now").count();
    assert!((1..=5).contains(&said), "said {said} times: {}", serin.log());
}

#[test]
fn a_soft_limit_of_descriptors_does_not_limit_clients() {
    let plain = Plain::start("v1");
    let mut serin = Serin::prepare(&plain.services());
    serin.spawn_limited("-S -n 64");
    serin.ready();
    let mut open: Vec<_> = (0..100).map(|_| Client::connect(serin.port).unwrap()).collect();
    for client in &mut open {
        assert_eq!(client.send("/", &[]).unwrap().status, 200);
    }
}
