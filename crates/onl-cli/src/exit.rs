use std::process::ExitCode;

/// How the command ends. Wrong usage (2) is reported by the parser, or by [`Exit::Usage`] for what it cannot see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// Failed; the reason was printed.
    Failed,
    /// Wrong usage.
    Usage,
    /// Too noisy to decide; nothing was changed.
    TooNoisy,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::TooNoisy => 3,
        })
    }
}
