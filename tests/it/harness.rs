//! A real `serin run` in a folder of its own, real upstreams beside it, and a small blocking HTTP/1.1 client.
//! Waits for things to happen, with generous limits; never sleeps for a fixed time and hopes.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU16, Ordering::Relaxed},
    time::{Duration, Instant},
};

use serde_json::Value;

/// Longest wait for anything that must happen soon; only a broken build or a stopped machine reaches it.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The binary under test: the one built for the tests, or another build of it named by `SERIN_BINARY`.
pub fn binary() -> String {
    std::env::var("SERIN_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_serin").to_owned())
}

/// A free port under the ephemeral range, so that no outgoing connection takes it while a server restarts.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 10_000 + u16::try_from(std::process::id() % 20_000).unwrap();
    loop {
        let port = 10_000 + (start - 10_000 + NEXT.fetch_add(1, Relaxed)) % 20_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Waits until `what` gives something.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {PATIENCE:?} in vain for: {what}");
        std::thread::yield_now();
        pace();
    }
}

/// The pause between two looks, so that polling leaves the cores to those who work.
pub fn pace() {
    // why: polling interval, not a wait for something to be done.
    std::thread::sleep(Duration::from_millis(5));
}

/// A running `serin run`.
pub struct Serin {
    pub dir: tempfile::TempDir,
    pub port: u16,
    pub admin: u16,
    child: Option<Child>,
}

impl Serin {
    /// Writes `serin.yaml` with `listen` and `admin` on free ports before the given text, and starts.
    pub fn start(services: &str) -> Self {
        let mut serin = Self::prepare(services);
        serin.spawn();
        serin.ready();
        serin
    }

    pub fn prepare(services: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let serin = Self { dir, port: free_port(), admin: free_port(), child: None };
        serin.write(services);
        serin
    }

    pub fn file(&self) -> PathBuf {
        self.dir.path().join("serin.yaml")
    }

    /// Saves the file as an editor does: a new file in the place of the old one.
    pub fn write(&self, services: &str) {
        self.write_with(&format!("listen: 127.0.0.1:{}", self.port), services);
    }

    /// The same with something else than the short form of one listener.
    pub fn write_with(&self, listeners: &str, services: &str) {
        let text = format!("{listeners}\nadmin: {{ listen: 127.0.0.1:{} }}\n{services}", self.admin);
        let new = self.dir.path().join("serin.yaml.new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.file()).unwrap();
    }

    pub fn spawn(&mut self) {
        self.spawn_into(Stdio::null());
    }

    /// Starts it with this as its standard output.
    pub fn spawn_into(&mut self, out: Stdio) {
        self.spawn_on(&self.file(), out);
    }

    /// Starts it under limits as `ulimit` takes them.
    pub fn spawn_limited(&mut self, limits: &str) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit {limits} && exec \"$0\" \"$@\""), &binary()]);
        self.spawn_by(shell, &self.file(), Stdio::null());
    }

    /// Starts it with these beside the environment of the test.
    pub fn spawn_told(&mut self, environment: &[(&str, &str)], out: Stdio) {
        let mut command = Command::new(binary());
        command.envs(environment.iter().copied());
        self.spawn_by(command, &self.file(), out);
    }

    fn spawn_on(&mut self, file: &Path, out: Stdio) {
        self.spawn_by(Command::new(binary()), file, out);
    }

    fn spawn_by(&mut self, mut command: Command, file: &Path, out: Stdio) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        command.args(["run", "--config"]).arg(file).stdin(Stdio::null()).stdout(out).stderr(log);
        self.child = Some(command.spawn().unwrap());
    }

    /// A further process on the same file.
    pub fn successor(&self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut successor = Self { dir, port: self.port, admin: self.admin, child: None };
        successor.spawn_on(&self.file(), Stdio::null());
        successor
    }

    /// Asks it to end, and waits for that.
    pub fn terminate(&mut self) {
        self.ask_to_end();
        self.ended();
    }

    /// Asks it to end.
    pub fn ask_to_end(&self) {
        assert!(Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().unwrap().success());
    }

    /// Waits for its end in order.
    pub fn ended(&mut self) {
        let mut child = self.child.take().unwrap();
        assert!(child.wait().unwrap().success(), "{}", self.log());
    }

    /// Waits until it serves.
    pub fn ready(&mut self) {
        let child = self.child.as_mut().unwrap();
        eventually("serin to be ready", || {
            assert_eq!(child.try_wait().unwrap(), None, "serin has ended");
            let answer = Client::get(self.admin, "/readyz").ok()?;
            (answer.status == 200).then_some(())
        });
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn kill9(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Runs a verb against it.
    pub fn cli(&self, args: &[&str]) -> Output {
        serin(args).arg("--config").arg(self.file()).output().unwrap()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// `GET /api/v1/services/web`.
    pub fn status(&self) -> Value {
        self.json("/api/v1/services/web")
    }

    /// The events of the service, oldest first.
    pub fn history(&self) -> Vec<Value> {
        self.json("/api/v1/services/web/history")["events"].as_array().cloned().unwrap_or_default()
    }

    pub fn json(&self, path: &str) -> Value {
        eventually("the admin API", || {
            let answer = Client::get(self.admin, path).ok()?;
            serde_json::from_slice(&answer.body).ok()
        })
    }

    /// Waits for an event of this kind and gives it.
    pub fn event(&self, kind: &str) -> Value {
        eventually(&format!("an event {kind}"), || self.history().into_iter().rfind(|event| event["kind"] == kind))
    }

    pub fn client(&self) -> Client {
        Client::connect(self.port).unwrap()
    }
}

impl Drop for Serin {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _gone = child.kill();
            let _gone = child.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<_> = log.lines().rev().take(30).collect();
            eprintln!("--- end of serin's log\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
    }
}

/// The binary with a verb, without a config from the environment.
pub fn serin(args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args).env_remove("SERIN_CONFIG").env_remove("SERIN_TOKEN").env("NO_COLOR", "1");
    command
}

/// A keep-alive HTTP/1.1 connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Client {
    pub fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port)))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// One request on a connection of its own.
    pub fn get(port: u16, path: &str) -> io::Result<Answer> {
        Self::connect(port)?.send(path, &[])
    }

    /// GET with headers, on this connection.
    pub fn send(&mut self, path: &str, headers: &[(&str, &str)]) -> io::Result<Answer> {
        let port = self.stream.get_ref().peer_addr()?.port();
        let mut head = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n");
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        self.stream.get_mut().write_all(head.as_bytes())?;
        self.read()
    }

    fn read(&mut self) -> io::Result<Answer> {
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(bad)?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(bad)?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let header = |name: &str| headers.iter().find(|(of, _)| of == name).map(|(_, value)| value.clone());
        let mut body = Vec::new();
        if let Some(length) = header("content-length") {
            body.resize(length.parse().map_err(|_| bad())?, 0);
            self.stream.read_exact(&mut body)?;
        } else if header("transfer-encoding").is_some() {
            loop {
                let size = usize::from_str_radix(&self.line()?, 16).map_err(|_| bad())?;
                let start = body.len();
                body.resize(start + size, 0);
                self.stream.read_exact(&mut body[start..])?;
                self.line()?;
                if size == 0 {
                    break;
                }
            }
        }
        Ok(Answer { status, headers, body })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    /// Which toy answered.
    pub fn version(&self) -> &str {
        self.header("x-version").unwrap_or("none")
    }
}

/// A server not written by us, with one small file to serve: nginx, or else Python's.
pub struct Foreign {
    pub port: u16,
    child: Child,
    _dir: tempfile::TempDir,
}

impl Foreign {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("index.html"), "hello from elsewhere\n").unwrap();
        let port = free_port();
        let child = nginx(dir.path(), port).unwrap_or_else(|error| {
            eprintln!("NGINX IS ABSENT ({error}): Python's http.server stands in; `.ci/run` installs nginx");
            python(dir.path(), port)
        });
        let foreign = Self { port, child, _dir: dir };
        eventually("the foreign server", || Client::get(port, "/").ok().filter(|answer| answer.status == 200));
        foreign
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn nginx(dir: &Path, port: u16) -> io::Result<Child> {
    let root = dir.display();
    let config = format!(
        "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log;\n\
         events {{}}\nhttp {{ access_log off; keepalive_requests 1000000;\n\
         client_body_temp_path {root}/a; proxy_temp_path {root}/b; fastcgi_temp_path {root}/c;\n\
         uwsgi_temp_path {root}/d; scgi_temp_path {root}/e;\n\
         server {{ listen 127.0.0.1:{port}; root {root}; }} }}\n"
    );
    let file = dir.join("nginx.conf");
    fs::write(&file, config)?;
    let program = if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
    Command::new(program).arg("-c").arg(file).stdin(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn python(dir: &Path, port: u16) -> Child {
    let port = port.to_string();
    let args = ["-m", "http.server", "--bind", "127.0.0.1", "--protocol", "HTTP/1.1", &port];
    let mut command = Command::new("python3");
    command.args(args).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("neither nginx nor python3 is there: run .ci/run, which installs them")
}
