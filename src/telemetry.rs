//! The process's own log: to stderr, as text or JSON. Access logs and metrics are not here.
