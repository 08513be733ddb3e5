//! `nodespy view`: a recording in the browser, served on this machine only.

mod gate;
mod head;
mod redirect;
mod server;

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use nodespy_capture::catch_interrupts;
use nodespy_symbolize::SourceRoots;

use crate::cli::{ReadArgs, ViewArgs};
use crate::output::{self, Stream};
use crate::save;

use redirect::Redirect;
use server::Server;

/// How often it is looked whether a signal came.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);
/// What a shell reports of a command that Ctrl-C ended.
const ENDED_BY_SIGNAL: i32 = 130;

pub(crate) fn run(arguments: &ViewArgs) -> anyhow::Result<ExitCode> {
    let reading = ReadArgs {
        keeps_events: true,
        ..arguments.read.clone()
    };
    let mut profile = save::read(&arguments.file, &reading.embedding(arguments.embed_source))?;
    if arguments.embed_source {
        SourceRoots::of_folder(arguments.read.root.as_deref()).embed(&mut profile);
    }
    let base = save::base(
        arguments.base.as_deref(),
        &reading,
        &arguments.show.filters(),
    )?;
    let show = arguments.show.filters_of_processes(&arguments.pid);
    let page = save::page(profile, &show, &base)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port))
        .with_context(|| format!("listening on 127.0.0.1:{}", arguments.port))?;
    let server = Server {
        port: listener.local_addr()?.port(),
        token: random_token()?,
        page,
        convert: &|bytes| {
            let converted = save::dropped_base(bytes, &arguments.show.filters());
            converted.map_err(|error| output::in_one_line(&error))
        },
        uploads: Mutex::new(()),
        redirect: Arc::default(),
    };
    let address = format!("http://127.0.0.1:{}/{}/", server.port, server.token);
    output::result(&format!("{address}\n"), Stream::Standard);
    if !arguments.no_open && has_desktop() {
        end_without_redirect(Arc::clone(&server.redirect));
        match open_browser(&address) {
            Ok(redirect) => *server::lock(&server.redirect) = Some(redirect),
            Err(_) => output::note("No browser could be started; open the address above."),
        }
    }
    output::note("Serving until Ctrl-C.");
    server.run(&listener);
    Ok(ExitCode::SUCCESS)
}

/// From now on a signal that ends nodespy takes the redirect along.
fn end_without_redirect(redirect: Arc<Mutex<Option<Redirect>>>) {
    let interrupts = catch_interrupts();
    std::thread::spawn(move || {
        while !interrupts.is_stop_requested() {
            std::thread::sleep(SIGNAL_INTERVAL);
        }
        // Held to the end, so that none is made meanwhile.
        let mut redirect = server::lock(&redirect);
        drop(redirect.take());
        std::process::exit(ENDED_BY_SIGNAL);
    });
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

/// Opens the browser on a file that leads to `address`, which itself must not be seen in `ps`.
fn open_browser(address: &str) -> anyhow::Result<Redirect> {
    let redirect = Redirect::to(address, &redirect::folder(), &random_token()?)?;
    Command::new("xdg-open")
        .arg(redirect.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(redirect)
}
