//! The admin listener on a Unix socket: who may open it, that the command line finds it, and what happens to old ones.
#![expect(clippy::unwrap_used, reason = "a scenario that cannot go on fails")]

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _},
        net::UnixStream,
    },
    path::PathBuf,
    process::Command,
};

use crate::harness::{Serin, binary, eventually};

/// A prepared Serin whose admin listener is a socket in its folder.
fn prepared() -> (Serin, PathBuf) {
    let serin = Serin::prepare("");
    let socket = serin.dir.path().join("admin.sock");
    let text = format!(
        "listen: 127.0.0.1:{}\nadmin: {{ listen: \"unix:{}\" }}\nservices:\n  web:\n    versions: {{ v1: \"http://127.0.0.1:1\", v2: \"http://127.0.0.1:2\" }}\n    stable: v1\n    canary: v2\n    steps: [10%]\n    hold: 1h\n",
        serin.port,
        socket.display()
    );
    fs::write(serin.file(), text).unwrap();
    (serin, socket)
}

fn is_up(serin: &Serin) -> Option<()> {
    serin.cli(&["healthcheck"]).status.success().then_some(())
}

#[test]
fn the_command_line_finds_a_socket_that_only_its_owner_may_open() {
    let (mut serin, socket) = prepared();
    serin.spawn();
    eventually("serin behind its socket", || is_up(&serin));
    let found = fs::symlink_metadata(&socket).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);

    let status = serin.cli(&["status", "--output", "json"]);
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    assert!(String::from_utf8_lossy(&status.stdout).contains("\"web\""));
    let abort = serin.cli(&["abort", "web", "--reason", "over the socket"]);
    assert!(abort.status.success(), "{}", String::from_utf8_lossy(&abort.stderr));
    let named =
        Command::new(binary()).args(["status", "--admin", &format!("unix:{}", socket.display())]).output().unwrap();
    assert!(String::from_utf8_lossy(&named.stdout).contains("Degraded"), "{named:?}");

    // A page of another site has no way in, but what is asked over the socket is looked at all the same.
    for (head, status) in [
        ("GET / HTTP/1.1\r\nhost: localhost\r\n", "200"),
        ("GET / HTTP/1.1\r\nhost: evil.example\r\n", "421"),
        ("GET / HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example\r\n", "403"),
        ("POST /api/v1/reload HTTP/1.1\r\nhost: localhost\r\n", "401"),
    ] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(format!("{head}connection: close\r\ncontent-length: 0\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
    }
}

#[test]
fn a_socket_of_a_dead_process_is_replaced_and_nothing_else() {
    let (mut serin, socket) = prepared();
    serin.spawn();
    eventually("serin behind its socket", || is_up(&serin));
    serin.kill9();
    assert!(socket.exists(), "nobody could tidy up");
    let error = serin.cli(&["status"]);
    assert_eq!(error.status.code(), Some(7));
    assert!(String::from_utf8_lossy(&error.stderr).contains("unix:"), "{error:?}");
    serin.spawn();
    eventually("serin behind its socket again", || is_up(&serin));

    let (other, taken) = prepared();
    fs::write(&taken, "precious").unwrap();
    let refused = Command::new(binary()).args(["run", "--config"]).arg(other.file()).output().unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is no socket"), "{refused:?}");
    assert_eq!(fs::read_to_string(taken).unwrap(), "precious");
}
