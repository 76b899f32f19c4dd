//! Small upstreams that answer every request in the same way, on threads of their own.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

/// Answers with its name and the head that it got in `x-head`, each line after a bar.
pub struct Plain {
    pub address: SocketAddr,
}

impl Plain {
    pub fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                thread::spawn(move || serve(stream, name));
            }
        });
        Self { address }
    }

    /// The part of a config that makes it the only version.
    pub fn services(&self) -> String {
        format!("services: {{ web: {{ versions: {{ v1: \"http://{}\" }}, stable: v1 }} }}\n", self.address)
    }
}

fn serve(stream: TcpStream, name: &str) {
    let Ok(mut writer) = stream.try_clone() else { return };
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    loop {
        let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        if head.is_empty() {
            return;
        }
        let told = head.join("|");
        let answer = format!("HTTP/1.1 200 OK\r\nx-head: {told}\r\ncontent-length: {}\r\n\r\n{name}", name.len());
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
