//! What `make dist` packs: everything is in it, and it installs.

mod matrix {
    use std::path::Path;
    use std::process::Command;

    use crate::run::run;
    use crate::scratch::Scratch;
    use crate::skip::skip;

    #[test]
    fn packages_hold_what_belongs_into_them_and_install_into_an_empty_root() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let tool = |name: &str| Command::new(root.join("tools").join(name));
        let mut tools = tool("pack.sh");
        tools.arg("--check-tools");
        let tools = run(tools);
        if tools.status.code() != Some(0) {
            return skip("npm, dpkg-deb and readelf make the packages");
        }
        let scratch = Scratch::new();
        let (binary, packed) = (scratch.file("nodespy"), scratch.file("packed"));
        // Not the binary that is shipped, which takes minutes to build; without debug information it packs in seconds.
        let mut strip = Command::new("strip");
        strip.args(["-o", &binary, env!("CARGO_BIN_EXE_nodespy")]);
        run(strip).expect_code(0);
        let mut pack = tool("pack.sh");
        pack.args([&binary, &packed]).env("LEVEL", "1");
        let packing = run(pack);
        packing.expect_code(0);
        assert!(
            packing.stdout.contains("glibc") || packing.stdout.contains("static"),
            "{packing}"
        );
        let mut check = tool("packed.sh");
        check.arg(&packed);
        let checked = run(check);
        checked.expect_code(0);
        for kind in ["archive: ", ".deb: ", "npm: "] {
            assert!(checked.stdout.contains(kind), "{checked}");
        }
        expect_what_binstall_fetches(&packed);
    }

    /// The archive has the name, and the binary in it the place, that `cargo binstall` looks for.
    fn expect_what_binstall_fetches(packed: &str) {
        let manifest = include_str!("../../Cargo.toml");
        let value = |key: &str| {
            let line = manifest.lines().find(|line| line.starts_with(key)).unwrap();
            let value = line.split('"').nth(1).unwrap();
            let value = value.replace("{ version }", env!("CARGO_PKG_VERSION"));
            value
                .replace("{ bin }", "nodespy")
                .replace("{ binary-ext }", "")
        };
        let url = value("pkg-url");
        let archive = Path::new(packed).join(url.rsplit('/').next().unwrap());
        let mut tar = Command::new("tar");
        tar.args(["--list", "--file"]).arg(archive);
        let listed = run(tar);
        listed.expect_code(0);
        let binary = value("bin-dir");
        assert!(
            listed.stdout.lines().any(|line| line == binary),
            "{binary}: {listed}"
        );
    }

    /// npm keeps the modes of files, and git gives a checkout those of who makes it.
    #[test]
    fn packages_of_npm_are_the_same_from_a_checkout_with_any_umask() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let scratch = Scratch::new();
        let line = "umask \"$1\"; mkdir \"$2\"; cp -r --no-preserve=mode \
            tools npm Cargo.toml LICENSE-APACHE LICENSE-MIT THIRD-PARTY.md \"$2\" && \
            bash \"$2/tools/npm.sh\" /bin/true \"$2/packed\" && cd \"$2/packed\" && sha256sum ./*";
        let packed = |umask: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", line, "sh", umask, &scratch.file(umask)]);
            shell.current_dir(root);
            run(shell)
        };
        let usual = packed("022");
        if usual.stderr.contains("npm: command not found") {
            return skip("npm makes the packages");
        }
        usual.expect_code(0);
        assert_eq!(usual.stdout.lines().count(), 2, "{usual}");
        assert_eq!(packed("077").stdout, usual.stdout);
    }
}
