//! The Node versions that live tests record, and the two tiers they run in.
//!
//! `make test` records the oldest, a middle and the newest version. A test with `matrix::` in its path
//! is left to `make test-all`: the versions between, containers, and every case of the inspector engine.

/// Tests each claim on every version: `claim_name(check)`, where `check` takes the major version. Claims after `three` are
/// about what follows once V8's and libuv's layouts are right, which other claims of the same file show: they are for the
/// oldest, a middle and the newest version.
macro_rules! on_every_node {
    ($every:tt) => {
        on_every_node!($every three {});
    };
    ($every:tt three $three:tt) => {
        on_every_node!(@versions $every $three on_node_16 "16" on_node_20 "20" on_node_26 "26");

        mod matrix {
            use super::*;
            on_every_node!(
                @versions $every {} on_node_18 "18" on_node_22 "22" on_node_24 "24" on_node_25 "25"
            );
        }
    };
    (@versions $every:tt $three:tt $($node:ident $version:literal)*) => {
        $(on_every_node!(@node $every $three $node $version);)*
    };
    (
        @node { $($claim:ident($check:expr);)* } { $($more:ident($more_check:expr);)* }
        $node:ident $version:literal
    ) => {
        mod $node {
            use super::*;
            $(
                #[test]
                fn $claim() {
                    let check: fn(&str) = $check;
                    check($version);
                }
            )*
            $(
                #[test]
                fn $more() {
                    let check: fn(&str) = $more_check;
                    check($version);
                }
            )*
        }
    };
}

/// The same on the oldest, a middle and the newest version: claims about what the kernel tells, which Node's layouts have no
/// part in.
macro_rules! on_three_nodes {
    ($claims:tt) => {
        on_every_node!(@versions $claims {} on_node_16 "16" on_node_20 "20" on_node_26 "26");
    };
}

pub(crate) use {on_every_node, on_three_nodes};

#[test]
fn every_listed_version_is_recorded() {
    let path = crate::workload::root().join("tools/node-versions");
    let listed = std::fs::read_to_string(path).unwrap();
    let versions = listed
        .lines()
        .filter(|line| line.starts_with(char::is_numeric));
    for version in versions {
        let (major, _) = version.split_once('.').unwrap();
        let recorded = format!("on_node_{major} \"{major}\"");
        assert!(
            include_str!("versions.rs").contains(&recorded),
            "on_every_node! does not record {version}"
        );
    }
}
