//! DOWN: the hand-over of decisions to the data plane. Holds the current [`Table`] behind one atomic pointer
//! and refuses an older generation; holds the [`Settings`] beside it. Decides nothing and knows nobody.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

mod settings;

pub use self::settings::{AccessLog, AccessLogFormat, Collector, Limits, ListenerSettings, Settings};
use crate::engine::table::Table;

/// The published table, and the settings beside it. Cloning shares them.
#[derive(Debug, Clone)]
pub struct Publication {
    current: Arc<ArcSwap<Table>>,
    publishing: Arc<Mutex<()>>,
    settings: Arc<ArcSwap<Settings>>,
}

impl Publication {
    /// Starts with a first table, and no settings.
    #[must_use]
    pub fn new(first: Arc<Table>) -> Self {
        Self { current: Arc::new(ArcSwap::new(first)), publishing: Arc::default(), settings: Arc::default() }
    }

    /// Puts settings in force for every connection that is accepted from now on.
    pub fn publish_settings(&self, settings: Settings) {
        self.settings.store(Arc::new(settings));
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Puts a table in force for every request routed from now on. False, and nothing changes, when the one
    /// in force is not older.
    pub fn publish(&self, table: Arc<Table>) -> bool {
        let _one_at_a_time = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        if table.generation <= self.current.load().generation {
            return false;
        }
        self.current.store(table);
        true
    }

    /// The table in force.
    #[must_use]
    pub fn current(&self) -> Arc<Table> {
        self.current.load_full()
    }

    /// A worker's own view, for one read a request: a pointer comparison while nothing has changed.
    #[must_use]
    pub fn reader(&self) -> TableReader {
        TableReader(arc_swap::Cache::new(Arc::clone(&self.current)))
    }
}

/// One worker's cached view of the published table.
#[derive(Debug)]
pub struct TableReader(arc_swap::Cache<Arc<ArcSwap<Table>>, Arc<Table>>);

impl TableReader {
    /// The table in force at this moment.
    pub fn read(&mut self) -> &Arc<Table> {
        self.0.load()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::names::Generation;

    fn table(generation: u64) -> Arc<Table> {
        Arc::new(Table::new(Generation(generation), Vec::new()))
    }

    #[test]
    fn an_older_table_never_replaces_a_newer_one() {
        let publication = Publication::new(table(5));
        let mut reader = publication.reader();
        assert!(!publication.publish(table(5)));
        assert!(!publication.publish(table(4)));
        assert_eq!(reader.read().generation, Generation(5));
        assert!(publication.publish(table(6)));
        assert_eq!(reader.read().generation, Generation(6));
    }
}
