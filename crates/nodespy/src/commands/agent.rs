//! `nodespy agent`: every Node process of this machine, all the time, into a store.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use nodespy_agent::{
    AgentEngine, AgentOptions, Destination, LogLine, MAX_GIVEN_LABELS, RequestOptions, Spool,
    Status,
};
use nodespy_capture::{catch_interrupts, unix_now};
use nodespy_http::{Client, ClientOptions};
use nodespy_model::{Labels, SmallSort, UtcTime};
use nodespy_server::Token;
use nodespy_store::{OpenMode, SqliteStore};
use nodespy_symbolize::SourceMapOptions;

use super::{agent_config, close_abandoned};
use crate::cli::{AgentArgs, AgentEngineArg, Push, PushKind, RequestSetting};
use crate::confine::Confinement;
use crate::failure::Failure;
use crate::output::{self, Stream};
use crate::privileges::{self, Extra};

/// The longest file of a token, or of webhooks.
const MAX_SECRET_FILE_BYTES: u64 = 4096;
/// Ports where processes are asked for their requests: each that one listens on is asked in turn.
const MAX_REQUEST_PORTS: usize = 16;
/// The file of a store in its folder.
const STORE_FILE: &str = "profiles.sqlite";

pub(crate) fn run(arguments: &AgentArgs) -> anyhow::Result<ExitCode> {
    let with_file = match &arguments.config {
        Some(file) => Some(agent_config::with_file(file)?),
        None => None,
    };
    let arguments = with_file.as_deref().unwrap_or(arguments);
    let requests = request_options(&arguments.requests)?;
    let labels = given_labels(arguments)?;
    check_engine(arguments)?;
    if arguments.check_config {
        warn_of_clear_tokens(&remotes(arguments)?);
        output::result("the settings are right\n", Stream::Standard);
        return Ok(ExitCode::SUCCESS);
    }
    let is_inspector = arguments.engine == AgentEngineArg::Inspector;
    match is_inspector {
        true => {
            privileges::no_new_privileges();
            privileges::keep_for_inspectors();
        }
        false => privileges::keep_for_processes(Extra::default()),
    }
    let destinations = destinations(arguments)?;
    let options = AgentOptions {
        engine: match arguments.engine {
            AgentEngineArg::Auto => AgentEngine::Auto,
            AgentEngineArg::Perf => AgentEngine::Perf,
            AgentEngineArg::Inspector => AgentEngine::Inspector {
                companion: close_abandoned::command,
            },
        },
        rate_hz: arguments.rate,
        is_adaptive: arguments.adaptive,
        max_overhead: arguments.max_overhead,
        include_kernel: !arguments.no_kernel,
        no_ebpf: arguments.no_ebpf,
        source_maps: (!arguments.no_source_maps).then(SourceMapOptions::default),
        labels,
        requests,
        duration: arguments.duration,
        interrupts: Some(catch_interrupts()),
        status: Arc::default(),
        attached: match is_inspector {
            true => privileges::keep_for_inspectors,
            false => privileges::keep_when_perf_is_attached,
        },
        write_only: privileges::keep_for_files,
        read_sockets: privileges::keep_for_files_of_processes,
    };
    if let Some(address) = arguments.listen {
        serve_status(address, Arc::clone(&options.status))?;
    }
    for destination in &destinations {
        say(&format!(
            "level=info msg=started to={:?} rate_hz={}",
            destination.name(),
            options.rate_hz
        ));
    }
    let log = Arc::new(|line: &LogLine| say(&line.to_string()));
    for (name, written) in nodespy_agent::run(&options, destinations, log)? {
        say(&format!(
            "level=info msg=ended to={name:?} windows={} repeated={} dropped={} retries={}",
            written.windows, written.repeated, written.dropped, written.retries
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// What the user gives every process.
fn given_labels(arguments: &AgentArgs) -> Result<Labels, Failure> {
    let mut labels = Labels::default();
    for (key, value) in &arguments.label {
        labels.set(key, value);
    }
    let given = labels.iter().len();
    match given > MAX_GIVEN_LABELS {
        true => Err(Failure::Usage(format!(
            "{given} labels are given, and {MAX_GIVEN_LABELS} are taken: a process has others too"
        ))),
        false => Ok(labels),
    }
}

/// V8's profiler knows nothing of what it costs, and has one rate.
fn check_engine(arguments: &AgentArgs) -> Result<(), Failure> {
    let is_inspector = arguments.engine == AgentEngineArg::Inspector;
    match is_inspector && arguments.max_overhead.is_some() {
        true => Err(Failure::Usage(
            "--max-overhead needs perf events: leave it out, or --engine inspector".to_owned(),
        )),
        false => Ok(()),
    }
}

/// Which counter tells requests, if they are counted.
fn request_options(settings: &[RequestSetting]) -> anyhow::Result<Option<RequestOptions>> {
    if settings.is_empty() {
        return Ok(None);
    }
    let (mut metric, mut path, mut ports) = (None, "/metrics".to_owned(), Vec::new());
    for setting in settings.iter().cloned() {
        match setting {
            RequestSetting::Metric(name) => metric = Some(name),
            RequestSetting::Path(given) => path = given,
            RequestSetting::Port(port) => ports.push(port),
        }
    }
    ports.small_sort();
    ports.dedup();
    match (metric, ports.len()) {
        (Some(metric), 1..=MAX_REQUEST_PORTS) => Ok(Some(RequestOptions {
            metric,
            ports,
            path,
        })),
        (_, ports) => {
            let why = match ports > MAX_REQUEST_PORTS {
                true => format!("requests are read at {MAX_REQUEST_PORTS} ports at most"),
                false => "requests need metric=NAME and port=PORT, the counter and where each process serves it".to_owned(),
            };
            Err(Failure::Usage(why).into())
        }
    }
}

/// Answers for monitoring, in a thread without the rights that sampling takes.
fn serve_status(address: SocketAddr, status: Arc<Status>) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    let address = listener.local_addr()?;
    say(&format!("level=info msg=listening address={address}"));
    std::thread::spawn(move || {
        privileges::keep_for_files();
        status.serve(&listener);
    });
    Ok(())
}

/// Where windows go: to servers, or into a store of this machine.
fn destinations(arguments: &AgentArgs) -> anyhow::Result<Vec<Destination>> {
    let remotes = remotes(arguments)?;
    warn_of_clear_tokens(&remotes);
    if remotes.is_empty() {
        let path = prepare_folder(&arguments.store)?;
        let store = SqliteStore::open(&path, OpenMode::Write)
            .with_context(|| format!("opening the store {}", path.display()))?;
        let retention = arguments.retention.retention();
        let name = path.display().to_string();
        return Ok(vec![Destination::store(&name, Box::new(store), retention)]);
    }
    let open = |remote: Remote| {
        let folder = arguments.store.join(remote.spool);
        let spool = Spool::open(&folder, arguments.spool_size)
            .with_context(|| format!("opening the spool {}", folder.display()))?;
        Ok((remote.destination)(remote.client, spool))
    };
    remotes.into_iter().map(open).collect()
}

/// A server that windows are sent to.
struct Remote {
    client: Client,
    has_token: bool,
    /// The folder of what waits.
    spool: String,
    destination: fn(Client, Spool) -> Destination,
}

/// The servers that windows are sent to, each with a token of its own or none.
fn remotes(arguments: &AgentArgs) -> anyhow::Result<Vec<Remote>> {
    check_tokens(arguments)?;
    let client = |url: &str, token_file: Option<&Path>| -> anyhow::Result<Client> {
        let token = token_file.map(read_token).transpose()?;
        let options = ClientOptions {
            token: token.map(|token| token.secret().to_owned()),
            ca_file: arguments.ca_file.clone(),
            ..ClientOptions::default()
        };
        Ok(Client::new(url, &options)?)
    };
    let mut remotes = Vec::new();
    if let Some(url) = &arguments.to {
        remotes.push(Remote {
            client: client(url, arguments.token_file.as_deref())?,
            has_token: arguments.token_file.is_some(),
            spool: "to-server".to_owned(),
            destination: Destination::server,
        });
    }
    for Push { kind, url } in &arguments.push {
        // What the command line says comes last, and wins.
        let mut tokens = arguments.push_token_file.iter().rev();
        let token = tokens.find(|token| token.kind == *kind);
        // Each its own, whatever comes before it on the command line.
        let plain = |it: char| if it.is_ascii_alphanumeric() { it } else { '-' };
        let name: String = url.chars().map(plain).take(100).collect();
        remotes.push(Remote {
            client: client(url, token.map(|token| token.file.as_path()))?,
            has_token: token.is_some(),
            spool: format!("to-{}-{name}", kind.word()),
            destination: match kind {
                PushKind::Pyroscope => Destination::pyroscope,
                PushKind::Otlp => Destination::otlp,
                PushKind::Parca => Destination::parca,
            },
        });
    }
    Ok(remotes)
}

/// Says which tokens anybody on the way can read, who can then write as this machine.
fn warn_of_clear_tokens(remotes: &[Remote]) {
    let clear = remotes.iter().filter(|remote| remote.has_token);
    for remote in clear.filter(|remote| is_clear_and_remote(remote.client.base())) {
        say(&format!(
            "level=warn msg=\"token is sent unencrypted\" to={:?} why=\"anybody on the way can read it: use https://\"",
            remote.client.base()
        ));
    }
}

/// Whether what is sent to an address leaves this machine without TLS.
fn is_clear_and_remote(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return false;
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_loopback = host
        .parse()
        .is_ok_and(|it: IpAddr| it.to_canonical().is_loopback());
    !is_loopback && !host.eq_ignore_ascii_case("localhost")
}

/// Refuses tokens of which it is not plain who gets them.
fn check_tokens(arguments: &AgentArgs) -> Result<(), Failure> {
    if arguments.token_file.is_some() && arguments.to.is_none() {
        return Err(Failure::Usage(
            "--token-file is for --to, which is not given; a push has its own: --push-token-file KIND=FILE"
                .to_owned(),
        ));
    }
    for token in &arguments.push_token_file {
        let word = token.kind.word();
        let pushes = arguments.push.iter();
        let why = match pushes.filter(|push| push.kind == token.kind).count() {
            1 => continue,
            0 => format!("--push-token-file {word}=… is for --push {word}=URL, which is not given"),
            pushes => format!(
                "--push-token-file {word}=… is for one destination, and --push has {pushes} of {word}"
            ),
        };
        return Err(Failure::Usage(why));
    }
    Ok(())
}

/// The token of a file.
pub(super) fn read_token(path: &Path) -> anyhow::Result<Token> {
    let text = read_secret(path)?;
    Token::of_text(&text).map_err(|why| anyhow!("{}: {why}", path.display()))
}

/// The text of a small file.
pub(super) fn read_secret(path: &Path) -> anyhow::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MAX_SECRET_FILE_BYTES).read_to_string(&mut text));
    read.with_context(|| format!("reading {}", path.display()))?;
    Ok(text)
}

/// The file of the store in this folder.
fn store_file(folder: &Path) -> PathBuf {
    folder.join(STORE_FILE)
}

/// The file of a store that is there already. From now on the process can write nothing but that folder, which readers write
/// to as well: they share memory with the writer, in a file beside the store.
pub(super) fn enter_store(folder: &Path) -> anyhow::Result<PathBuf> {
    let file = store_file(folder);
    if !file.exists() {
        let folder = folder.display();
        return Err(anyhow!(
            "there is no store in {folder}: nodespy agent --store {folder} makes one"
        ));
    }
    Confinement::default().writing([folder.to_owned()]).apply();
    Ok(file)
}

/// The same for stores in or below a folder, which are made if there are none.
pub(super) fn enter_new_stores(
    folder: &Path,
    stores: impl Iterator<Item = PathBuf>,
) -> anyhow::Result<Vec<PathBuf>> {
    let files: Vec<PathBuf> = stores
        .map(|store| prepare_folder(&store))
        .collect::<anyhow::Result<_>>()?;
    Confinement::default().writing([folder.to_owned()]).apply();
    Ok(files)
}

/// Makes the folder of a store, for its owner only, if there is none.
fn prepare_folder(folder: &Path) -> anyhow::Result<PathBuf> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| {
            format!(
                "making the folder {}; another one: --store FOLDER",
                folder.display()
            )
        })?;
    Ok(store_file(folder))
}

fn say(line: &str) {
    output::note(&format!("time={} {line}", utc(unix_now() / 1_000_000_000)));
}

/// `2026-11-17T09:31:00Z`.
pub(crate) fn utc(unix_seconds: u64) -> String {
    let time = UtcTime::of(unix_seconds);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        time.year, time.month, time.day, time.hour, time.minute, time.second
    )
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};

    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn arguments(words: &[&str]) -> Box<AgentArgs> {
        let words = ["nodespy", "agent"].iter().chain(words);
        match Cli::try_parse_from(words).unwrap().command {
            Some(Command::Agent(arguments)) => arguments,
            other => panic!("{other:?}"),
        }
    }

    /// The `Authorization` that a client sends to a listener.
    fn authorization(client: &Client, listener: &TcpListener) -> Option<String> {
        std::thread::scope(|scope| {
            let answering = scope.spawn(|| {
                let (mut connection, _) = listener.accept().unwrap();
                let reader = BufReader::new(connection.try_clone().unwrap());
                let lines = reader.lines().map(Result::unwrap);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                connection.write_all(answer).unwrap();
                head.into_iter().find_map(|line| {
                    let (name, value) = line.split_once(": ")?;
                    let is_it = name.eq_ignore_ascii_case("authorization");
                    is_it.then(|| value.to_owned())
                })
            });
            client.post("/", &[], b"").unwrap();
            answering.join().unwrap()
        })
    }

    #[test]
    fn a_token_goes_to_its_own_destination_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("{name}-0123456789abcdef\n")).unwrap();
            path.display().to_string()
        };
        let listeners = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [to, pyroscope, otlp, parca] = listeners
            .each_ref()
            .map(|it| format!("http://{}", it.local_addr().unwrap()));
        let pushes = [
            format!("--push=pyroscope={pyroscope}"),
            format!("--push=otlp={otlp}"),
            format!("--push=parca={parca}"),
        ];
        let tokens = [
            format!("--token-file={}", file("server")),
            format!("--push-token-file=parca={}", file("of-the-settings")),
            format!("--push-token-file=parca={}", file("parca")),
        ];
        let words = ["--to", &to].into_iter();
        let words = words.chain(pushes.iter().chain(&tokens).map(String::as_str));
        let remotes = remotes(&arguments(&words.collect::<Vec<_>>())).unwrap();
        let sent: Vec<Option<String>> = remotes
            .iter()
            .zip(&listeners)
            .map(|(remote, listener)| authorization(&remote.client, listener))
            .collect();
        let bearer = |name: &str| Some(format!("Bearer {name}-0123456789abcdef"));
        assert_eq!(sent, [bearer("server"), None, None, bearer("parca")]);
    }

    #[test]
    fn what_leaves_the_machine_without_tls_is_known() {
        for url in [
            "http://profiles.internal:4600",
            "http://10.0.0.7/below",
            "http://[2001:db8::1]:4600",
            "http://127.0.0.1.example.com",
            "http://localhost.example.com:80",
        ] {
            assert!(is_clear_and_remote(url), "{url}");
        }
        for url in [
            "https://profiles.internal",
            "http://127.0.0.1:4600",
            "http://127.1.2.3",
            "http://[::1]:4600/below",
            "http://[::ffff:127.0.0.1]",
            "http://LocalHost:4600",
        ] {
            assert!(!is_clear_and_remote(url), "{url}");
        }
    }

    #[test]
    fn a_token_whose_destination_is_not_plain_is_refused() {
        let push = "--push=otlp=http://127.0.0.1:1";
        let token = "--push-token-file=otlp=/etc/token";
        for (words, why) in [
            (&["--token-file=/etc/token"][..], "is for --to"),
            (&["--token-file=/etc/token", push], "is for --to"),
            (&[token], "which is not given"),
            (
                &[token, "--push=parca=http://127.0.0.1:1"],
                "which is not given",
            ),
            (
                &[token, push, "--push=otlp=http://127.0.0.1:2"],
                "2 of otlp",
            ),
        ] {
            let refused = remotes(&arguments(words)).err().unwrap().to_string();
            assert!(refused.contains(why), "{words:?}: {refused}");
        }
    }
}
