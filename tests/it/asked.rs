//! A server of a test that is asked over real sockets, one request a connection, and answers as the test says.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

use serde_json::Value;

use crate::harness::PATIENCE;

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its lines, the request line first.
    pub head: Vec<String>,
    pub body: String,
}

impl Request {
    /// None of a client that went away in the middle of it.
    fn read(stream: &TcpStream) -> Option<Self> {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut reader = BufReader::new(stream);
        let head = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        let mut request = Self { head, body: String::new() };
        let length = request.field("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        reader.take(length).read_to_string(&mut request.body).ok()?;
        (!request.head.is_empty()).then_some(request)
    }

    pub fn path(&self) -> &str {
        self.head[0].split(' ').nth(1).unwrap_or_default()
    }

    pub fn field(&self, name: &str) -> Option<String> {
        let find = |line: &String| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        self.head.iter().find_map(find)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// An answer with this status, more field lines, each with its end, and a body; the connection is closed behind it.
pub fn answer(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// Answers each request, until the tests end; says the port. With no answer the connection is closed.
pub fn serve(listener: TcpListener, mut answer: impl FnMut(Request) -> Option<String> + Send + 'static) -> u16 {
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            if let Some(answer) = Request::read(&stream).and_then(&mut answer) {
                // Who asked may have died meanwhile, which is no fault here.
                let _gone = stream.write_all(answer.as_bytes());
            }
        }
    });
    port
}

/// A listener on a port that nobody has.
pub fn anywhere() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}
