//! `nodespy view`: a recording in the browser, served on this machine only.

mod browser;
mod redirect;
mod server;

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use nodespy_capture::{Interrupts, catch_interrupts};
use nodespy_http::Answer;
use nodespy_symbolize::SourceRoots;

use crate::cli::{ReadArgs, ViewArgs};
use crate::comparing::Base;
use crate::confine::Confinement;
use crate::output::{self, Stream};
use crate::save;

use browser::Browser;
use redirect::Redirect;
use server::Server;

/// How often it is looked whether a signal came.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);
/// What a shell reports of a command that Ctrl-C ended.
const ENDED_BY_SIGNAL: i32 = 130;

pub(crate) fn run(arguments: &ViewArgs) -> anyhow::Result<ExitCode> {
    // All that a confined process can't do comes before the first byte of the recording.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port))
        .with_context(|| format!("listening on 127.0.0.1:{}", arguments.port))?;
    let port = listener.local_addr()?.port();
    let token = random_token()?;
    let address = format!("http://127.0.0.1:{port}/{token}/");
    let inputs = [&arguments.file].into_iter().chain(&arguments.base);
    let mut confinement = Confinement::reading(inputs, &arguments.read);
    let redirect = Arc::default();
    let mut browser = None;
    if !arguments.no_open && has_desktop() {
        let interrupts = catch_interrupts();
        browser = Some(prepare_browser(&address, &redirect));
        confinement = confinement.removing_from(redirect::folder());
        confinement.apply();
        end_without_redirect(interrupts, Arc::clone(&redirect));
    } else {
        confinement.apply();
    }
    let page = read_page(arguments).inspect_err(|_| drop(server::lock(&redirect).take()))?;
    let server = Server {
        port,
        token,
        page: Answer::ok("text/html; charset=utf-8", page),
        convert: &|bytes| {
            let converted = save::dropped_base(bytes, &arguments.show.filters());
            converted.map_err(|error| output::in_one_line(&error))
        },
        uploads: Mutex::new(()),
        redirect,
    };
    output::result(&format!("{address}\n"), Stream::Standard);
    if browser.is_some_and(|browser| browser.and_then(Browser::open).is_err()) {
        output::note("No browser could be started; open the address above.");
    }
    output::note("Serving until Ctrl-C.");
    server.run(&listener);
    Ok(ExitCode::SUCCESS)
}

fn read_page(arguments: &ViewArgs) -> anyhow::Result<Vec<u8>> {
    let reading = ReadArgs {
        keeps_events: true,
        ..arguments.read.clone()
    };
    let mut profile = save::read(&arguments.file, &reading.embedding(arguments.embed_source))?;
    if arguments.embed_source {
        SourceRoots::of_folder(arguments.read.root.as_deref()).embed(&mut profile);
    }
    let base = Base::of(
        (&arguments.file, &profile),
        arguments.base.as_deref(),
        &reading,
        &arguments.show.filters(),
    )?;
    let show = arguments.show.filters_of_processes(&arguments.pid);
    save::page(profile, &show, &base)
}

/// What the browser is opened with, until it has asked for the page.
type HeldRedirect = Arc<Mutex<Option<Redirect>>>;

/// From now on a signal that ends nodespy takes the redirect along.
fn end_without_redirect(interrupts: Interrupts, redirect: HeldRedirect) {
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

/// Makes ready to open the browser on a file that leads to `address`, which itself must not be seen in `ps`.
fn prepare_browser(address: &str, held: &HeldRedirect) -> anyhow::Result<Browser> {
    let redirect = Redirect::to(address, &redirect::folder(), &random_token()?)?;
    // A redirect that nothing opens goes away here.
    let browser = Browser::prepare(redirect.path())?;
    *server::lock(held) = Some(redirect);
    Ok(browser)
}
