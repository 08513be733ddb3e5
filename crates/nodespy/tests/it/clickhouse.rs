//! `nodespy store init`, and a server whose store is in ClickHouse.

use std::path::Path;

use crate::ingest::{lately, seen, send, total};
use crate::run::run_nodespy;
use crate::scratch::Scratch;
use crate::serving::Server;

#[test]
fn statements_are_printed_for_who_runs_the_database() {
    let arguments = ["store", "init", "--clickhouse", "http://db:8123/profiles"];
    let printed = run_nodespy(&[&arguments[..], &["--keep", "3d", "--print"]].concat());
    printed.expect_code(0);
    let text = &printed.stdout;
    assert!(
        text.starts_with("CREATE DATABASE IF NOT EXISTS profiles;\n"),
        "{text}"
    );
    assert!(
        text.contains("TTL start + INTERVAL 259200 SECOND"),
        "{text}"
    );
    let cluster = run_nodespy(&[&arguments[..], &["--cluster", "{cluster}", "--print"]].concat());
    cluster.expect_code(0);
    assert!(
        cluster
            .stdout
            .contains("profiles.windows ON CLUSTER '{cluster}'")
    );
    assert!(
        cluster
            .stdout
            .contains("ENGINE = ReplicatedReplacingMergeTree")
    );
}

#[test]
fn a_clickhouse_that_is_away_is_named() {
    for arguments in [
        &["store", "init", "--clickhouse", "http://127.0.0.1:1"][..],
        &[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--store",
            "clickhouse=http://127.0.0.1:1",
        ],
        &["regressions", "--store", "clickhouse=http://127.0.0.1:1"],
    ] {
        let outcome = run_nodespy(arguments);
        outcome.expect_code(1);
        let text = &outcome.stderr;
        assert!(
            text.contains("no answer from ClickHouse at http://127.0.0.1:1"),
            "{text}"
        );
    }
    let outcome = run_nodespy(&["serve", "--store", "clickhouse=127.0.0.1:8123"]);
    outcome.expect_code(2);
}

/// In the slow tier: the engine has to be installed.
mod matrix {
    use super::*;

    #[test]
    fn windows_that_are_sent_are_in_clickhouse() {
        let Some(address) = crate::clickhouse_server::fresh_address() else {
            return;
        };
        let store = format!("clickhouse={address}");
        let refused = run_nodespy(&["serve", "--listen", "127.0.0.1:0", "--store", &store]);
        refused.expect_code(1);
        assert!(
            refused.stderr.contains("nodespy store init"),
            "{}",
            refused.stderr
        );
        run_nodespy(&["store", "init", "--clickhouse", &address]).expect_code(0);

        let server = Server::start(Path::new(&store), "127.0.0.1:0", &["--ingest"]);
        let start = lately();
        let batch = seen("shop", "parseOrders", start, 3);
        assert_eq!(send(&server, &batch).1, "windows=1 repeated=0 too_old=0");
        assert_eq!(total(&server, "shop"), 3);
        // Killed; what was acknowledged is there, and two servers share it.
        drop(server);
        let servers =
            [(); 2].map(|()| Server::start(Path::new(&store), "127.0.0.1:0", &["--ingest"]));
        assert_eq!(
            send(&servers[0], &batch).1,
            "windows=0 repeated=1 too_old=0"
        );
        let later = seen("shop", "render", start - 10, 2);
        assert_eq!(
            send(&servers[1], &later).1,
            "windows=1 repeated=0 too_old=0"
        );
        assert_eq!(
            (total(&servers[0], "shop"), total(&servers[1], "shop")),
            (5, 5)
        );
        let (head, body) = servers[0].ask("/api/v1/profile?service=shop&format=folded", "");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let folded = String::from_utf8(body).unwrap();
        assert!(
            folded.contains("parseOrders 3") && folded.contains("render 2"),
            "{folded}"
        );
        let services = servers[1].json("/api/v1/services");
        assert!(services.to_string().contains("shop"), "{services}");

        run_nodespy(&["deploy", "mark", "shop", "2.0.0", "--store", &store]).expect_code(0);
        run_nodespy(&["regressions", "--store", &store]).expect_code(0);
    }

    #[test]
    fn tenants_have_databases_of_their_own() {
        let Some(address) = crate::clickhouse_server::fresh_address() else {
            return;
        };
        let folder = Scratch::new();
        let tenants = folder.path().join("tenants");
        for name in ["red", "blue"] {
            std::fs::create_dir_all(tenants.join(name)).unwrap();
            for purpose in ["read", "write"] {
                let token = format!("{name}-{purpose}-0123456789abcdef\n");
                std::fs::write(tenants.join(name).join(purpose), token).unwrap();
            }
            run_nodespy(&[
                "store",
                "init",
                "--clickhouse",
                &format!("{address}_{name}"),
            ])
            .expect_code(0);
        }
        let store = format!("clickhouse={address}");
        let arguments = ["--tenants", tenants.to_str().unwrap()];
        let server = Server::start(Path::new(&store), "127.0.0.1:0", &arguments);
        let bearer = |token: &str| format!("Authorization: Bearer {token}-0123456789abcdef\r\n");
        let body = nodespy_store::batch_to_bytes(&seen("shop", "f", lately(), 1));
        let (head, _) = server.post("/api/v1/windows", &bearer("red-write"), &body);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let services = |token: &str| {
            let (_, body) = server.ask("/api/v1/services", &bearer(token));
            String::from_utf8(body).unwrap()
        };
        assert!(services("red-read").contains("shop"));
        assert!(!services("blue-read").contains("shop"));
    }
}
