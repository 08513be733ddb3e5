//! `nodespy serve`: what an agent has kept, over HTTP.

use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use nodespy_server::{Access, Server, Stores, Token};

use super::agent::enter_store;
use crate::cli::ServeArgs;
use crate::failure::Failure;
use crate::output::{self, Stream};

/// The longest file of a token.
const MAX_TOKEN_FILE_BYTES: u64 = 4096;

pub(crate) fn run(arguments: &ServeArgs) -> anyhow::Result<ExitCode> {
    let token = arguments
        .token_file
        .as_deref()
        .map(read_token)
        .transpose()?;
    // All that a confined process can't do comes before the first byte of the store.
    let listener = TcpListener::bind(arguments.listen)
        .with_context(|| format!("listening on {}", arguments.listen))?;
    let address = listener.local_addr()?;
    let access = Access::new(address, token).map_err(Failure::Usage)?;
    let file = enter_store(&arguments.store)?;
    let stores =
        Stores::open(&file).with_context(|| format!("opening the store {}", file.display()))?;
    output::result(&format!("http://{address}/\n"), Stream::Standard);
    output::note("Serving until Ctrl-C.");
    Server::new(stores, access).run(&listener);
    Ok(ExitCode::SUCCESS)
}

fn read_token(path: &Path) -> anyhow::Result<Token> {
    use std::io::Read;
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MAX_TOKEN_FILE_BYTES).read_to_string(&mut text));
    read.with_context(|| format!("reading {}", path.display()))?;
    Token::of_text(&text).map_err(|why| anyhow!("{}: {why}", path.display()))
}
