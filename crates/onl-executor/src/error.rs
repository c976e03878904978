use thiserror::Error;

/// Why an executor could not be had or entered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExecutorError {
    /// The process is a fork of the one that made the executor; its worker threads do not exist here.
    #[error(
        "the executor was made before this process was forked and has no worker threads here; make a new session in \
         the child"
    )]
    Forked,
    /// The registry holds as many executors as it may.
    #[error(
        "{live} executors with distinct policies are live, the most allowed; drop sessions, or let sessions use the \
         same policy"
    )]
    TooManyPools {
        /// Executors live now.
        live: usize,
    },
    /// The system refused a worker thread.
    #[error("cannot start worker lane {lane} of {lanes}: {reason}; use fewer threads")]
    Spawn {
        /// Lane without a thread.
        lane: usize,
        /// Lanes of the executor.
        lanes: usize,
        /// The system's reason.
        reason: String,
    },
}
