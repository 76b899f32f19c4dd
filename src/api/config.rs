//! What the config file last said, on the wire.

use serde::{Deserialize, Serialize};

use super::codec;
use crate::engine::time::Timestamp;

/// `GET config`, and part of every status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigStatus {
    /// The file.
    pub path: String,
    /// When the settings in force were loaded.
    #[serde(with = "codec::word")]
    pub loaded: Timestamp,
    /// Successful loads, the first included.
    pub loads: u64,
    /// Refused loads.
    pub failures: u64,
    /// Why the file as it is now was refused; absent when it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What of the file is in force only after a restart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs_restart: Vec<String>,
}
