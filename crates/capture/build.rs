//! Builds the eBPF program's source a second time, for user space: `bpf/reader.c`.

fn main() {
    for file in ["walk.bpf.c", "user_space.h", "reader.c"] {
        println!("cargo::rerun-if-changed=bpf/{file}");
    }
    cc::Build::new()
        .file("bpf/reader.c")
        .compile("nodespy_reader");
}
