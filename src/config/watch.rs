//! Tells when the content of the config file has changed: by the system's notices on its folder, and by looking twice a second.
//! Refuses to report a change that is none: what counts is the bytes, not who touched the file.

use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc as notices,
    thread,
    time::{Duration, Instant},
};

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use tokio::sync::mpsc;

use super::read_bytes;

/// Between two looks at the file where no notice comes: network folders, single-file mounts, symlinks into other folders.
const POLL: Duration = Duration::from_millis(500);
/// How long the content must stay the same before it is taken for what was meant: an editor truncates, writes and renames
/// within this, and half a file may be sound in itself and name another canary, or none.
const SETTLE: Duration = Duration::from_millis(50);
/// Content that is still another after so long is told as it is: something writes all the time.
const RESTLESS: Duration = Duration::from_secs(1);
/// How long a file may be away before that is told: some tools delete it and write it anew.
const AWAY: Duration = Duration::from_secs(1);

/// What the watcher has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The file's content is another than the last one delivered, or can be read again. What is written slowly may be
    /// half of it: then the rest follows as another change. Cut off one byte above the largest file.
    Content(Vec<u8>),
    /// The file cannot be read, with the reason; told once until it can be read again.
    Unreadable(String),
    /// The system's notices do not work, with the reason; the file is looked at twice a second all the same.
    NoticesFailed(String),
}

/// Watches one file until dropped.
#[derive(Debug)]
pub struct Watcher {
    changes: mpsc::Receiver<Change>,
}

impl Watcher {
    /// Starts to watch. `loaded` is the content in force: what was saved since it was read is told at once.
    ///
    /// # Errors
    /// When no thread can be started. That the folder cannot be watched is a [`Change::NoticesFailed`].
    pub fn start(path: &Path, loaded: &[u8]) -> io::Result<Self> {
        // One at a time: a slow reader gets the newest content next, not all that came between.
        let (tell, changes) = mpsc::channel(1);
        let (delivered, settling) = (loaded.to_owned(), Settling::default());
        let look = Look { path: path.to_owned(), delivered, settling, away: Away::No, tell };
        thread::Builder::new().name("config-watch".to_owned()).spawn(move || look.run())?;
        Ok(Self { changes })
    }

    /// The next change; none when the watching thread is gone.
    pub async fn changed(&mut self) -> Option<Change> {
        self.changes.recv().await
    }
}

enum Away {
    No,
    Since(Instant),
    Told,
}

/// The watching thread.
struct Look {
    path: PathBuf,
    delivered: Vec<u8>,
    settling: Settling,
    away: Away,
    tell: mpsc::Sender<Change>,
}

/// New content that may be half-written still.
#[derive(Debug, Default)]
struct Settling {
    /// Since when there is something new, and what was seen last.
    seen: Option<(Instant, Vec<u8>)>,
}

impl Settling {
    const fn is_on(&self) -> bool {
        self.seen.is_some()
    }

    /// Whether new content, if there is any, is to be told: seen twice the same, or restless for too long.
    fn has_settled(&mut self, new: Option<&[u8]>, now: Instant) -> bool {
        let Some(new) = new else {
            self.seen = None;
            return false;
        };
        let (since, settled) = match &self.seen {
            Some((since, last)) => (*since, last == new || now.duration_since(*since) >= RESTLESS),
            None => (now, false),
        };
        self.seen = (!settled).then(|| (since, new.to_owned()));
        settled
    }
}

impl Look {
    fn run(mut self) {
        let (notice, notices) = notices::sync_channel(1);
        let watched = watch_folder(&self.path, notice);
        if let Err(error) = &watched {
            self.say(Change::NoticesFailed(error.to_string()));
        }
        while !self.tell.is_closed() {
            self.look();
            match notices.recv_timeout(if self.settling.is_on() { SETTLE } else { POLL }) {
                Ok(Ok(())) => thread::sleep(SETTLE),
                Ok(Err(error)) => self.say(Change::NoticesFailed(error)),
                Err(notices::RecvTimeoutError::Timeout) => {}
                Err(notices::RecvTimeoutError::Disconnected) => thread::sleep(POLL),
            }
        }
    }

    fn look(&mut self) {
        match (read_bytes(&self.path), &self.away) {
            (Ok(content), away) => {
                // That it is back is told as well, once it has settled.
                let told = matches!(away, Away::Told);
                let is_new = told || content != self.delivered;
                let has_settled = self.settling.has_settled(is_new.then_some(&content[..]), Instant::now());
                if has_settled || !told {
                    self.away = Away::No;
                }
                if has_settled {
                    self.delivered.clone_from(&content);
                    self.say(Change::Content(content));
                }
            }
            (Err(_), Away::No) => self.away = Away::Since(Instant::now()),
            (Err(error), Away::Since(since)) if since.elapsed() >= AWAY => {
                self.away = Away::Told;
                self.say(Change::Unreadable(error.to_string()));
            }
            (Err(_), Away::Since(_) | Away::Told) => {}
        }
    }

    /// Waits for the reader. That it is gone is seen by the loop.
    fn say(&self, change: Change) {
        let _ = self.tell.blocking_send(change);
    }
}

/// Watches the folder, not the file: a file that is replaced is another file, and only the folder knows.
fn watch_folder(path: &Path, notice: notices::SyncSender<Result<(), String>>) -> notify::Result<RecommendedWatcher> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // A full channel holds a notice that is not looked at yet, and one is enough.
        let _ = match event {
            Ok(event) if is_write(event.kind) => notice.try_send(Ok(())),
            Ok(_) => Ok(()),
            Err(error) => notice.try_send(Err(error.to_string())),
        };
    })?;
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

/// Reading is noticed as well, our own too, and must not lead to more reading.
const fn is_write(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if !matches!(access, AccessKind::Close(AccessMode::Write)))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    /// Far above what is promised (1 s): only a broken watcher runs into it.
    const DEADLINE: Duration = Duration::from_secs(20);

    #[test]
    fn a_half_written_file_is_not_told_of() {
        let (mut settling, start) = (Settling::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert!(!settling.has_settled(Some(b"canary: v"), at(0)), "seen once");
        assert!(!settling.has_settled(Some(b"canary: v2"), at(50)), "another already");
        assert!(settling.has_settled(Some(b"canary: v2"), at(100)) && !settling.is_on());
        assert!(!settling.has_settled(Some(b""), at(200)) && !settling.has_settled(None, at(250)), "as it was before");
        assert!(!settling.is_on());
        // Whoever writes all the time is not waited for for ever.
        let mut told = (0..30_u8).map(|at_| settling.has_settled(Some(&[at_]), at(300 + u64::from(at_) * 50)));
        assert_eq!(told.position(|told| told), Some(20));
    }

    async fn content(watcher: &mut Watcher) -> String {
        match tokio::time::timeout(DEADLINE, watcher.changed()).await.expect("a change in time") {
            Some(Change::Content(content)) => String::from_utf8(content).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Reads until the content is `wanted`: a write in place may be seen half-way.
    async fn until(watcher: &mut Watcher, wanted: &str) {
        while content(watcher).await != wanted {}
    }

    #[tokio::test]
    async fn saves_of_every_kind_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serin.yaml");
        fs::write(&path, "0").unwrap();
        let mut watcher = Watcher::start(&path, b"0").unwrap();

        fs::write(&path, "in place").unwrap();
        until(&mut watcher, "in place").await;

        let swap = folder.path().join("serin.yaml.swp");
        fs::write(&swap, "renamed").unwrap();
        fs::rename(&swap, &path).unwrap();
        until(&mut watcher, "renamed").await;

        fs::remove_file(&path).unwrap();
        fs::write(&path, "recreated").unwrap();
        until(&mut watcher, "recreated").await;
    }

    #[tokio::test]
    async fn what_was_saved_before_the_start_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serin.yaml");
        fs::write(&path, "newer").unwrap();
        let mut watcher = Watcher::start(&path, b"older").unwrap();
        assert_eq!(content(&mut watcher).await, "newer");
    }

    /// A mounted ConfigMap: serin.yaml → ..data/serin.yaml, ..data → a folder, and only ..data is ever replaced.
    #[tokio::test]
    async fn swaps_of_a_mounted_config_map_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let publish = |version: &str| {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("serin.yaml"), version).unwrap();
            symlink(version, at("..data_tmp")).unwrap();
            fs::rename(at("..data_tmp"), at("..data")).unwrap();
        };
        publish("..1");
        symlink("..data/serin.yaml", at("serin.yaml")).unwrap();
        let mut watcher = Watcher::start(&at("serin.yaml"), b"..1").unwrap();
        for (old, new) in [("..1", "..2"), ("..2", "..3")] {
            publish(new);
            fs::remove_dir_all(at(old)).unwrap();
            assert_eq!(content(&mut watcher).await, new);
        }
    }

    #[tokio::test]
    async fn a_link_into_another_folder_is_looked_at() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (path, target) = (here.path().join("serin.yaml"), there.path().join("real.yaml"));
        fs::write(&target, "1").unwrap();
        symlink(&target, &path).unwrap();
        let mut watcher = Watcher::start(&path, b"1").unwrap();
        fs::write(&target, "2").unwrap();
        until(&mut watcher, "2").await;
    }

    /// Ten saves a second by rename: each delivery is a whole save, none is told twice, and the last one arrives.
    #[tokio::test]
    async fn many_saves_end_with_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serin.yaml");
        fs::write(&path, "0").unwrap();
        let mut watcher = Watcher::start(&path, b"0").unwrap();
        let saves = {
            let (path, swap) = (path.clone(), folder.path().join("swap"));
            thread::spawn(move || {
                for save in 1..=15 {
                    fs::write(&swap, save.to_string()).unwrap();
                    fs::rename(&swap, &path).unwrap();
                    // Touched without a change: must not be told.
                    fs::write(&path, save.to_string()).unwrap();
                    // why: ten saves a second are the input; nothing is waited for
                    thread::sleep(Duration::from_millis(100));
                }
            })
        };
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last| last != "15") {
            let next = content(&mut watcher).await;
            // The touch truncates first, which may be seen as an empty file.
            if !next.is_empty() {
                seen.push(next);
            }
        }
        saves.join().unwrap();
        let numbers: Vec<u32> = seen.iter().map(|text| text.parse().unwrap()).collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
        assert!(numbers.len() > 1, "{numbers:?}");
    }

    #[tokio::test]
    async fn a_file_that_stays_away_is_told_once_and_its_return_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serin.yaml");
        fs::write(&path, "1").unwrap();
        let mut watcher = Watcher::start(&path, b"1").unwrap();
        fs::remove_file(&path).unwrap();
        let gone = tokio::time::timeout(DEADLINE, watcher.changed()).await.unwrap();
        assert!(matches!(gone, Some(Change::Unreadable(_))), "{gone:?}");
        fs::write(&path, "1").unwrap();
        until(&mut watcher, "1").await;
    }

    #[tokio::test]
    async fn without_notices_the_file_is_looked_at_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("not-there-yet");
        let path = below.join("serin.yaml");
        let mut watcher = Watcher::start(&path, b"").unwrap();
        let first = tokio::time::timeout(DEADLINE, watcher.changed()).await.unwrap();
        assert!(matches!(first, Some(Change::NoticesFailed(_))), "{first:?}");
        fs::create_dir(&below).unwrap();
        fs::write(&path, "1").unwrap();
        while tokio::time::timeout(DEADLINE, watcher.changed()).await.unwrap() != Some(Change::Content(b"1".to_vec())) {
        }
    }

    #[test]
    fn reading_is_no_change() {
        assert!(!is_write(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        assert!(!is_write(EventKind::Access(AccessKind::Close(AccessMode::Read))));
        assert!(is_write(EventKind::Access(AccessKind::Close(AccessMode::Write))));
        assert!(is_write(EventKind::Any));
    }
}
