//! Packs the viewer, which is 63 KB in the binary instead of 182, and hashes it for the policy of the page.

use std::io::Write;
use std::path::Path;
use std::{env, fs};

use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use sha2::{Digest, Sha256};

fn main() {
    let output = env::var_os("OUT_DIR").expect("cargo sets it");
    for (file, variable) in [
        ("viewer.js", "SCRIPT_SHA256"),
        ("style.css", "STYLE_SHA256"),
    ] {
        let path = Path::new("assets").join(file);
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        println!(
            "cargo::rustc-env={variable}={}",
            BASE64.encode(&Sha256::digest(&text))
        );
        let mut packer = DeflateEncoder::new(Vec::new(), Compression::best());
        packer.write_all(&text).expect("memory takes it");
        let packed = packer.finish().expect("memory takes it");
        fs::write(Path::new(&output).join(file), packed).expect("OUT_DIR can be written to");
    }
}
