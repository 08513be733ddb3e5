//! Builds the eBPF program's source a second time, for user space: `bpf/reader.c`. And packs the programs to a quarter.

use std::io::Write;
use std::path::Path;
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;

fn main() {
    // The program and its parts, all of which reader.c includes.
    println!("cargo::rerun-if-changed=bpf");
    cc::Build::new()
        .file("bpf/reader.c")
        .compile("nodespy_reader");
    for file in ["walk.bpf.o", "walk-5.15.bpf.o", "walk-5.8.bpf.o"] {
        pack(file);
    }
}

fn pack(file: &str) {
    let path = Path::new("bpf").join(file);
    println!("cargo::rerun-if-changed={}", path.display());
    let object = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut packer = DeflateEncoder::new(Vec::new(), Compression::best());
    packer.write_all(&object).expect("memory takes it");
    let packed = packer.finish().expect("memory takes it");
    let output = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&output).join(file), packed).expect("OUT_DIR can be written to");
}
