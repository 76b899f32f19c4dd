//! The stage of the demo and of `try`: a folder that is gone afterwards, a config file in it, Serin, and a load.
//! What happens on it is told by `show` and `trial`.

use std::{
    fmt::Write as _,
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::load::{Load, LoadError, LoadSpec, Summary};
use crate::{
    config::Diagnostics,
    engine::{
        event::{Event, EventKind},
        view::ServiceView,
    },
    server::{Server, Source, StartError},
};

/// How often the scene is looked at.
pub const LOOK: Duration = Duration::from_millis(100);
/// How long requests may take to end when the stage is cleared.
const GRACE: Duration = Duration::from_secs(2);

/// What is played.
#[derive(Debug, Clone)]
pub struct Script {
    /// Where clients come in; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Name and URL of each version, stable first.
    pub versions: Vec<(String, String)>,
    /// The wanted version.
    pub canary: String,
    /// The weights, as the file writes them.
    pub steps: Vec<String>,
    /// How long each is held.
    pub hold: Duration,
    /// Requests a second of the load.
    pub rate: f64,
    /// What it asks for, as `/`.
    pub path: String,
}

/// Why the show cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// No temporary folder.
    #[error("cannot use the temporary folder {0}: {1}")]
    Folder(PathBuf, io::Error),
    /// The written config is not sound: a URL of the user's, most likely.
    #[error("{0}")]
    Config(Diagnostics),
    /// Serin does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The load does not start.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The address of the proxy is not a URL.
    #[error("cannot send a load to the proxy: {0}")]
    Url(#[from] http::uri::InvalidUri),
}

/// Serin under load, with everything that must be put away at the end.
#[derive(Debug)]
pub struct Stage {
    script: Script,
    folder: Folder,
    server: Option<Server>,
    load: Option<Load>,
    seen: u64,
}

impl Stage {
    /// Writes the config, starts Serin and the load.
    ///
    /// # Errors
    /// See [`StageError`]; nothing is left behind.
    pub fn set(script: Script) -> Result<Self, StageError> {
        let folder = Folder::new()?;
        let file = folder.file();
        folder.write(&script.config())?;
        let source = Source::read(&file).map_err(StageError::Config)?;
        let server = Server::start(source)?;
        let target = server.addresses().first().copied().unwrap_or(script.listen);
        let mut spec = LoadSpec::new(format!("http://{target}{}", script.path).parse()?, script.rate);
        spec.connections = 16;
        let load = Load::start(spec)?;
        Ok(Self { script, folder, server: Some(server), load: Some(load), seen: 0 })
    }

    /// Names another version as canary in the file, as a user would, and saves.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn wish(&mut self, canary: &str) -> Result<(), StageError> {
        canary.clone_into(&mut self.script.canary);
        self.folder.write(&self.script.config())
    }

    /// The file that Serin follows.
    #[must_use]
    pub fn config_text(&self) -> String {
        self.script.config()
    }

    /// Where clients come in.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().and_then(|server| server.addresses().first().copied())
    }

    /// Where the admin API answers.
    #[must_use]
    pub fn admin(&self) -> Option<SocketAddr> {
        self.server.as_ref().and_then(|server| server.admin().tcp())
    }

    /// The service as it stands.
    #[must_use]
    pub fn service(&self) -> Option<ServiceView> {
        self.server.as_ref().and_then(|server| server.handle().view().services.first().cloned())
    }

    /// All events so far.
    #[must_use]
    pub fn history(&self) -> Vec<Event> {
        self.server.as_ref().map(|server| server.handle().history()).unwrap_or_default()
    }

    /// Events since the last call.
    pub fn news(&mut self) -> Vec<Event> {
        let seen = self.seen;
        let news: Vec<Event> = self.history().into_iter().filter(|event| event.sequence > seen).collect();
        self.seen = news.last().map_or(seen, |event| event.sequence);
        news
    }

    /// Whether a rollout of this version ended, and how.
    #[must_use]
    pub fn outcome(&self, version: &str) -> Option<EventKind> {
        let ends = [EventKind::Promoted, EventKind::Aborted, EventKind::Superseded];
        let of = |event: &&Event| {
            ends.contains(&event.kind) && event.canary.as_ref().is_some_and(|canary| canary.as_str() == version)
        };
        self.history().iter().rfind(of).map(|event| event.kind)
    }

    /// What the load saw so far.
    #[must_use]
    pub fn load(&self) -> Option<Summary> {
        self.load.as_ref().map(|load| load.stats().summary())
    }

    /// Ends the load, then Serin, then removes the folder.
    pub fn clear(mut self) -> Option<Summary> {
        let summary = self.load.take().map(Load::stop);
        if let Some(server) = self.server.take() {
            server.shutdown(GRACE);
        }
        summary
    }
}

impl Script {
    /// The config file, in its short form.
    #[must_use]
    pub fn config(&self) -> String {
        let mut text = format!("listen: {}\n", self.listen);
        text.push_str("admin: { listen: \"127.0.0.1:0\" }\nservices:\n  web:\n    versions:\n");
        for (name, url) in &self.versions {
            let _ = writeln!(text, "      {name}: {url}");
        }
        let stable = self.versions.first().map_or("", |(name, _)| name.as_str());
        let _ = writeln!(text, "    stable: {stable}");
        let _ = writeln!(text, "    canary: {}", self.canary);
        let _ = writeln!(text, "    steps: [{}]", self.steps.join(", "));
        let _ = writeln!(text, "    hold: {}ms", self.hold.as_millis());
        text.push_str("    abortWhen: { errorRate: 2% }\n");
        text
    }
}

/// A folder of our own that goes away with us.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, StageError> {
        let unique = Instant::now().elapsed().as_nanos() ^ u128::from(fastrand::u64(..));
        let path = std::env::temp_dir().join(format!("serin-{}-{unique:x}", std::process::id()));
        fs::create_dir(&path).map_err(|cause| StageError::Folder(path.clone(), cause))?;
        Ok(Self(path))
    }

    fn file(&self) -> PathBuf {
        self.0.join("serin.yaml")
    }

    /// As an editor saves: a new file in the place of the old one.
    fn write(&self, text: &str) -> Result<(), StageError> {
        let (new, file) = (self.0.join("serin.yaml.new"), self.file());
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &file));
        written.map_err(|cause| StageError::Folder(Path::to_owned(&self.0), cause))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The system clears its temporary folder in the end; there is nobody left to tell.
        let _left = fs::remove_dir_all(&self.0);
    }
}
