//! `onl peer-process`: opens models and measures blocks of runs as it is told on stdin.

use crate::exit::Exit;
use crate::{Common, commands};
use anyhow::Result;
use onl_evidence::attribution::OnlSettings;
use onl_evidence::peer::serve;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
}

pub fn run(arguments: &Arguments) -> Result<Exit> {
    let settings = OnlSettings {
        policy: commands::policy(&arguments.common),
        environment: commands::environment(&arguments.common),
    };
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    serve(&mut input, &mut output, &settings)?;
    Ok(Exit::Done)
}
