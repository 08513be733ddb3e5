//! Builds the eBPF program's source a second time, for user space: `bpf/reader.c`. And packs the objects of the program, which have
//! most of their bytes in common: 388 KB are 48 in the binary.

use std::io::Write;
use std::path::Path;
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// In turns, so that what objects share is never further apart than deflate looks back, which is 32 KiB.
const TURN: usize = 8 << 10;

fn main() {
    // The program and its parts, all of which reader.c includes.
    println!("cargo::rerun-if-changed=bpf");
    cc::Build::new()
        .file("bpf/reader.c")
        .compile("nodespy_reader");
    let objects = ["walk.bpf.o", "walk-5.15.bpf.o", "walk-5.8.bpf.o"].map(read);
    let lengths = objects.each_ref().map(Vec::len);
    let constants =
        format!("const TURN: usize = {TURN};\nconst LENGTHS: [usize; 3] = {lengths:?};\n");
    write("walk.rs", constants.as_bytes());
    write("walk.packed", &packed(&objects));
}

fn read(file: &str) -> Vec<u8> {
    let path = Path::new("bpf").join(file);
    println!("cargo::rerun-if-changed={}", path.display());
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn packed(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut packer = DeflateEncoder::new(Vec::new(), Compression::best());
    let longest = objects.iter().map(Vec::len).max().unwrap_or(0);
    for start in (0..longest).step_by(TURN) {
        for object in objects {
            let turn = object.iter().skip(start).take(TURN);
            let turn: Vec<u8> = turn.copied().collect();
            packer.write_all(&turn).expect("memory takes it");
        }
    }
    packer.finish().expect("memory takes it")
}

fn write(file: &str, bytes: &[u8]) {
    let output = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&output).join(file), bytes).expect("OUT_DIR can be written to");
}
