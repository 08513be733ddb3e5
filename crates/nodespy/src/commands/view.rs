//! `nodespy view`: a recording in the browser, served on this machine only.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context;

use crate::cli::ViewArgs;
use crate::output::{self, Stream};
use crate::save;

pub(crate) fn run(arguments: &ViewArgs) -> anyhow::Result<ExitCode> {
    let profile = save::read(&arguments.file, &arguments.read)?;
    let page = save::page(profile, &arguments.show.of_processes(&arguments.pid))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port))
        .with_context(|| format!("listening on 127.0.0.1:{}", arguments.port))?;
    let token = random_token()?;
    let address = format!("http://{}/{token}/", listener.local_addr()?);
    output::result(&format!("{address}\n"), Stream::Standard);
    if !arguments.no_open && has_desktop() {
        open_browser(&address);
    }
    output::note("Serving until Ctrl-C.");
    for connection in listener.incoming() {
        // One reader at a time is enough; one that goes away is its own affair.
        let _ = connection.and_then(|connection| answer(connection, &token, &page));
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(mut connection: TcpStream, token: &str, page: &[u8]) -> std::io::Result<()> {
    connection.set_read_timeout(Some(Duration::from_secs(5)))?;
    connection.set_write_timeout(Some(Duration::from_secs(60)))?;
    let mut reader = BufReader::new(connection.try_clone()?).take(16 << 10);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut header = String::new();
    while reader.read_line(&mut header)? > 2 {
        header.clear();
    }
    let is_ours = request
        .strip_prefix("GET /")
        .and_then(|rest| rest.strip_prefix(token))
        .is_some_and(|rest| rest.starts_with("/ ") || rest.starts_with("/?"));
    let (status, kind, body): (_, _, &[u8]) = if is_ours {
        ("200 OK", "text/html; charset=utf-8", page)
    } else {
        ("404 Not Found", "text/plain", b"not here\n")
    };
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    connection.write_all(body)
}

/// What keeps other users of this machine from reading the profile.
fn random_token() -> anyhow::Result<String> {
    let mut bytes = [0u8; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("reading /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn has_desktop() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")) && !is_set("SSH_CONNECTION")
}

fn open_browser(address: &str) {
    let started = Command::new("xdg-open")
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if started.is_err() {
        output::note("No browser could be started; open the address above.");
    }
}
