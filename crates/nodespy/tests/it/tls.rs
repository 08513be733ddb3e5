//! `nodespy serve` over TLS, with certificates that only tests trust.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nodespy_http::{Client, ClientOptions};

use crate::run::run_nodespy;
use crate::scratch::Scratch;
use crate::serving::Server;

const TOKEN: &str = "writes-0123456789abcdef";

fn fixture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tls");
    folder.join(name)
}

fn text(path: PathBuf) -> String {
    path.to_str().unwrap().to_owned()
}

fn client(url: &str, ca_file: Option<PathBuf>, token: &str) -> Client {
    let options = ClientOptions {
        token: Some(token.to_owned()),
        ca_file,
        ..ClientOptions::default()
    };
    Client::new(url, &options).unwrap()
}

#[test]
fn windows_are_sent_and_read_over_tls() {
    let folder = Scratch::new();
    let token = folder.file("token");
    std::fs::write(&token, TOKEN).unwrap();
    let (cert, key) = (text(fixture("server.pem")), text(fixture("server.key")));
    let store = folder.path().join("store");
    let tls = ["--tls-cert", &*cert, "--tls-key", &key];
    let tokens = ["--token-file", &*token, "--write-token-file", &token];
    // Reachable by others: it has all that this takes.
    let server = Server::start(&store, "0.0.0.0:0", &[tls, tokens].concat());
    let port = server.address.rsplit(':').next().unwrap();
    let url = format!("https://127.0.0.1:{port}");
    let ours = || Some(fixture("ca.pem"));
    let post =
        |client: Client| client.post("/ingest?name=shop&sampleRate=10", &[], b"main;send 9\n");
    let reply = post(client(&url, ours(), TOKEN)).unwrap();
    assert_eq!(reply.text(), "200 windows=1 repeated=0 too_old=0");
    // By its name as well.
    let by_name = format!("https://localhost:{port}");
    assert_eq!(post(client(&by_name, ours(), TOKEN)).unwrap().status, 200);
    let wrong = "guesses-0123456789abcdef";
    assert_eq!(post(client(&url, ours(), wrong)).unwrap().status, 403);

    // An authority that is not trusted, another name, and no TLS at all.
    let other = Some(fixture("server.pem"));
    let error = post(client(&url, other, TOKEN)).unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    let elsewhere = format!("https://127.0.0.2:{port}");
    let error = post(client(&elsewhere, ours(), TOKEN)).unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    assert!(post(client(&format!("http://127.0.0.1:{port}"), None, TOKEN)).is_err());
    // A large body that is refused: the answer arrives all the same.
    let large = client(&url, ours(), TOKEN);
    let reply = large
        .post("/api/v1/windows", &[], &vec![0; 9 << 20])
        .unwrap();
    assert_eq!(reply.status, 413);

    // One that says nothing holds up no one, and is not waited for.
    let mut silent = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    silent.write_all(&[22, 3, 1]).unwrap();
    let since = Instant::now();
    assert_eq!(post(client(&url, ours(), TOKEN)).unwrap().status, 200);
    silent
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest);
    assert!(since.elapsed() < Duration::from_secs(55));
}

#[test]
fn other_machines_are_not_answered_in_the_clear() {
    let folder = Scratch::new();
    let token = folder.file("token");
    std::fs::write(&token, TOKEN).unwrap();
    let store = folder.file("store");
    let wide = [
        "serve",
        "--store",
        &*store,
        "--listen",
        "0.0.0.0:0",
        "--token-file",
        &token,
    ];
    let outcome = run_nodespy(&wide);
    outcome.expect_code(2);
    outcome.expect_stderr(&["--tls-cert", "--behind-proxy"]);
    let (cert, key) = (text(fixture("server.pem")), text(fixture("server.key")));
    // A key is no certificate, and the other way around.
    let outcome = run_nodespy(&[&wide[..], &["--tls-cert", &key, "--tls-key", &cert]].concat());
    outcome.expect_code(1);
    outcome.expect_stderr(&["server.key: no certificate as PEM"]);
    let outcome = run_nodespy(&[&wide[..], &["--tls-cert", &cert]].concat());
    outcome.expect_code(2);
    outcome.expect_stderr(&["--tls-key"]);
}
