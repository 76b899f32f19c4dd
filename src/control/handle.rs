//! How others talk to the control plane: read the view, ask for something, listen. Cloneable; never blocks the driver.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwap;
use tokio::sync::{broadcast, mpsc, oneshot};

use super::notify::{Counters, Delivery};
use crate::{
    engine::{
        event::Event,
        input::{Command, Refusal},
        time::Timestamp,
        view::View,
    },
    measure::trail::Trail,
};

/// Events kept in memory for `history`; older ones are in the journal until it is compacted.
pub const HISTORY_MAX: usize = 1_000;
/// Commands that may wait for the driver.
pub const INBOX_MAX: usize = 64;
/// Events that a slow listener may lag behind before it loses some and is told so.
pub const LAG_MAX: usize = 256;

/// What the file last said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigStatus {
    /// The file.
    pub path: String,
    /// When the settings in force were loaded.
    pub loaded: Timestamp,
    /// Successful loads, the first included.
    pub loads: u64,
    /// Refused loads.
    pub failures: u64,
    /// Why the file as it is now was refused; none when it is in force.
    pub error: Option<String>,
    /// What of the file is in force only after a restart, e.g. `listeners`; empty when all is.
    pub needs_restart: Vec<&'static str>,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CommandError {
    /// The engine refused; nothing has changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The decision could not be written; stable only, paused.
    #[error("the decision could not be remembered: {0}")]
    Storage(String),
    /// The process is going down, or too many commands wait.
    #[error("the control plane does not take commands now; try again")]
    Busy,
}

/// Why a reload did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReloadError {
    /// The file was refused; the diagnostics as text. The former settings stay in force.
    #[error("{0}")]
    Refused(String),
    /// The process is going down, or too many commands wait.
    #[error("the control plane does not take commands now; try again")]
    Busy,
}

/// A message to the driver.
#[derive(Debug)]
pub enum Message {
    /// Carry this out and answer once it is persisted and published; the answer is the last event of it, if any.
    Command(Command, oneshot::Sender<Result<Option<Event>, CommandError>>),
    /// Answer what carrying this out now would decide, and change nothing.
    Rehearse(Command, oneshot::Sender<Result<Option<Event>, CommandError>>),
    /// Read the file again and answer with what came of it: the diagnostics as text on refusal.
    Reload(oneshot::Sender<Result<(), ReloadError>>),
}

/// The shared side.
#[derive(Debug)]
pub struct Shared {
    /// Replaced by the driver after each input.
    pub view: ArcSwap<View>,
    /// Replaced by the driver after each load.
    pub config: ArcSwap<ConfigStatus>,
    /// Newest last.
    pub history: Mutex<VecDeque<Event>>,
    /// Each event once it is in force.
    pub events: broadcast::Sender<Event>,
    /// The past of all versions, for curves.
    pub trail: Mutex<Trail>,
    /// How each receiver of messages stands.
    pub deliveries: ArcSwap<Vec<Arc<Counters>>>,
    /// Whether the state folder could be written at the last try; it is tried each second.
    pub state_writable: AtomicBool,
}

/// A handle on the control plane.
#[derive(Debug, Clone)]
pub struct Handle {
    shared: Arc<Shared>,
    inbox: mpsc::Sender<Message>,
}

impl Handle {
    /// A handle, and what the driver needs: the shared side and the inbox.
    #[must_use]
    pub fn new(
        view: View,
        config: ConfigStatus,
        history: VecDeque<Event>,
    ) -> (Self, Arc<Shared>, mpsc::Receiver<Message>) {
        let (inbox, messages) = mpsc::channel(INBOX_MAX);
        let shared = Arc::new(Shared {
            view: ArcSwap::from_pointee(view),
            config: ArcSwap::from_pointee(config),
            history: Mutex::new(history),
            events: broadcast::channel(LAG_MAX).0,
            trail: Mutex::default(),
            deliveries: ArcSwap::default(),
            state_writable: AtomicBool::new(true),
        });
        (Self { shared: Arc::clone(&shared), inbox }, shared, messages)
    }

    /// The latest view, at most 100 ms old.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.shared.view.load_full()
    }

    /// What the file last said.
    #[must_use]
    pub fn config(&self) -> Arc<ConfigStatus> {
        self.shared.config.load_full()
    }

    /// How each receiver of messages stands.
    #[must_use]
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.shared.deliveries.load().iter().map(|counters| counters.read()).collect()
    }

    /// Whether the state folder could be written at the last try.
    #[must_use]
    pub fn state_writable(&self) -> bool {
        self.shared.state_writable.load(Relaxed)
    }

    /// The remembered events, oldest first, at most [`HISTORY_MAX`].
    #[must_use]
    pub fn history(&self) -> Vec<Event> {
        self.shared.history.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// What `read` makes of the past of all versions. Keeps the driver waiting meanwhile, so it only copies.
    pub fn trail<T>(&self, read: impl FnOnce(&Trail) -> T) -> T {
        read(&self.shared.trail.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Each event from now on, once it is in force.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.shared.events.subscribe()
    }

    /// Carries out a command. What is acknowledged is persisted and published.
    ///
    /// # Errors
    /// When refused, when it could not be remembered, or when the driver is gone or swamped.
    pub async fn command(&self, command: Command) -> Result<Option<Event>, CommandError> {
        let (answer, answered) = oneshot::channel();
        self.inbox.try_send(Message::Command(command, answer)).map_err(|_| CommandError::Busy)?;
        answered.await.map_err(|_| CommandError::Busy)?
    }

    /// What the command would decide now; nothing is changed, remembered or told.
    ///
    /// # Errors
    /// As [`Handle::command`].
    pub async fn rehearse(&self, command: Command) -> Result<Option<Event>, CommandError> {
        let (answer, answered) = oneshot::channel();
        self.inbox.try_send(Message::Rehearse(command, answer)).map_err(|_| CommandError::Busy)?;
        answered.await.map_err(|_| CommandError::Busy)?
    }

    /// Reads the file again now.
    ///
    /// # Errors
    /// When the file is refused, or when the driver is gone or swamped.
    pub async fn reload(&self) -> Result<(), ReloadError> {
        let (answer, answered) = oneshot::channel();
        self.inbox.try_send(Message::Reload(answer)).map_err(|_| ReloadError::Busy)?;
        answered.await.map_err(|_| ReloadError::Busy)?
    }
}
