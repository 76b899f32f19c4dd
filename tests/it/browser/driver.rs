//! A real Chromium, driven by the W3C WebDriver protocol over plain HTTP: just enough of it for the dashboard's tests.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a scenario that cannot go on fails")]

use std::{
    io::{self, BufRead, BufReader, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::harness::{PATIENCE, eventually, free_port};

pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";

/// The key under which WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// One browser with one window and a profile of its own.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    profile: tempfile::TempDir,
}

/// An element of the page.
#[derive(Debug, Clone)]
pub struct Element(String);

impl Browser {
    /// Starts it; none, and said loudly, where the machine has none.
    pub fn start(scripts: bool) -> Option<Self> {
        let Some(program) =
            ["/usr/bin/chromedriver", "/usr/lib/chromium/chromedriver"].into_iter().find(|at| Path::new(at).exists())
        else {
            eprintln!(
                "CHROMIUM IS ABSENT: the dashboard is not tried in a browser; `.ci/run` installs chromium-driver"
            );
            return None;
        };
        let port = free_port();
        let driver = Command::new(program)
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self { driver, port, session: String::new(), profile };
        eventually("the driver", || {
            TcpStream::connect(("127.0.0.1", port)).ok()?;
            (browser.ask("GET", "/status", None).ok()?["ready"] == true).then_some(())
        });
        let started =
            browser.ask("POST", "/session", Some(browser.wishes(scripts))).unwrap_or_else(|error| panic!("{error}"));
        browser.session = format!("/session/{}", started["sessionId"].as_str().unwrap());
        Some(browser)
    }

    fn wishes(&self, scripts: bool) -> Value {
        let profile = format!("--user-data-dir={}", self.profile.path().display());
        // No sandbox: tests may run as root. No shared memory: containers have little.
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1280,900",
            &profile,
        ];
        let allowed = if scripts { 1 } else { 2 };
        json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "goog:chromeOptions": {
                "args": args,
                "prefs": { "profile.managed_default_content_settings.javascript": allowed },
            },
        } } })
    }

    pub fn open(&self, url: &str) {
        self.post("/url", json!({ "url": url }));
    }

    /// The element of that selector, once there is one.
    pub fn find(&self, selector: &str) -> Element {
        eventually(selector, || self.all(selector).into_iter().next())
    }

    pub fn all(&self, selector: &str) -> Vec<Element> {
        let found = self.post("/elements", json!({ "using": "css selector", "value": selector }));
        found.as_array().unwrap().iter().map(|element| Element(element[ELEMENT].as_str().unwrap().to_owned())).collect()
    }

    /// The text of the first element of that selector that has these words, once one has.
    pub fn wait_for(&self, selector: &str, words: &str) -> String {
        eventually(&format!("{words} in {selector}"), || {
            // A piece may be replaced between the two questions.
            self.all(selector).iter().filter_map(|element| self.try_text(element)).find(|text| text.contains(words))
        })
    }

    pub fn text(&self, selector: &str) -> String {
        self.try_text(&self.find(selector)).unwrap_or_default()
    }

    fn try_text(&self, element: &Element) -> Option<String> {
        let path = format!("{}/element/{}/text", self.session, element.0);
        self.ask("GET", &path, None).ok()?.as_str().map(ToOwned::to_owned)
    }

    pub fn click(&self, selector: &str) {
        // Replaced while it is clicked: once more.
        eventually(&format!("a click on {selector}"), || {
            let element = self.all(selector).into_iter().next()?;
            self.ask("POST", &format!("{}/element/{}/click", self.session, element.0), Some(json!({}))).ok()
        });
    }

    /// Types into whatever has the focus.
    pub fn keys(&self, text: &str) {
        let active = self.get("/element/active");
        let id = active[ELEMENT].as_str().unwrap();
        self.post(&format!("/element/{id}/value"), json!({ "text": text }));
    }

    /// The name by which a screen reader calls an element; none when the element has been replaced meanwhile.
    pub fn name(&self, element: &Element) -> Option<String> {
        let path = format!("{}/element/{}/computedlabel", self.session, element.0);
        self.ask("GET", &path, None).ok()?.as_str().map(ToOwned::to_owned)
    }

    /// The id of what has the focus.
    pub fn focused(&self) -> String {
        self.run("return document.activeElement.id").as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an element has the focus: a page gives it some time after it has been read.
    pub fn wait_for_focus(&self, id: &str) {
        eventually(&format!("the focus on {id}"), || (self.focused() == id).then_some(()));
    }

    pub fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({ "script": script, "args": [] }))
    }

    /// A command of Chromium's own protocol.
    pub fn chromium(&self, command: &str, parameters: &Value) -> Value {
        self.post("/goog/cdp/execute", json!({ "cmd": command, "params": parameters }))
    }

    /// What is seen of the page, as PNG.
    pub fn picture(&self) -> Vec<u8> {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        STANDARD.decode(self.get("/screenshot").as_str().unwrap()).unwrap()
    }

    /// Everything that the console said of warnings and errors.
    pub fn console(&self) -> Vec<String> {
        let lines = self.post("/se/log", json!({ "type": "browser" }));
        let bad = lines.as_array().unwrap().iter().filter(|line| line["level"] != "INFO" && line["level"] != "DEBUG");
        bad.map(|line| line["message"].as_str().unwrap().to_owned()).collect()
    }

    /// The addresses of all requests since the last call.
    pub fn requests(&self) -> Vec<String> {
        let lines = self.post("/se/log", json!({ "type": "performance" }));
        let messages = lines.as_array().unwrap().iter().filter_map(|line| {
            let message: Value = serde_json::from_str(line["message"].as_str()?).ok()?;
            (message["message"]["method"] == "Network.requestWillBeSent")
                .then(|| message["message"]["params"]["request"]["url"].as_str().map(ToOwned::to_owned))?
        });
        messages.collect()
    }

    fn get(&self, path: &str) -> Value {
        self.ask("GET", &format!("{}{path}", self.session), None).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn post(&self, path: &str, body: Value) -> Value {
        self.ask("POST", &format!("{}{path}", self.session), Some(body))
            .unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// One request to the driver; its `value`, or what it says is wrong.
    fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, String> {
        let body = body.map_or_else(String::new, |body| body.to_string());
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(body.as_bytes()))
            .map_err(|error| error.to_string())?;
        let mut body: Value =
            serde_json::from_slice(&read(&mut BufReader::new(stream)).map_err(|error| error.to_string())?)
                .map_err(|error| error.to_string())?;
        let value = body["value"].take();
        match value["error"].as_str() {
            Some(error) => Err(format!("{error}: {}", value["message"])),
            None => Ok(value),
        }
    }
}

/// The body of an answer; the driver does not close connections.
fn read(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(said) = line.strip_prefix("content-length:") {
            length = said.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(body)
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _gone = self.ask("DELETE", &self.session, None);
        }
        let _gone = self.driver.kill();
        let _gone = self.driver.wait();
    }
}
