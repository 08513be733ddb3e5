//! An output that can't be renamed over, on a disk that is full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::run_nodespy;
use crate::scene::Disk;
use crate::scratch::Scratch;
use crate::{is_root, skip};

/// A file that is mounted at a path of its own, as Docker does, until it is dropped.
struct MountedFile(PathBuf);

impl MountedFile {
    fn new(file: &Path, at: PathBuf) -> Self {
        fs::write(&at, "").unwrap();
        let mut command = Command::new("mount");
        let status = command.arg("--bind").arg(file).arg(&at).status();
        assert!(status.unwrap().success(), "a file can't be mounted");
        Self(at)
    }
}

impl Drop for MountedFile {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// As in a folder that takes no new files.
#[test]
fn an_output_that_is_written_over_on_a_full_disk_keeps_what_it_had() {
    if !is_root() {
        return skip::skip("chaos needs root");
    }
    let scratch = Scratch::new();
    let folder = scratch.path().join("disk");
    let disk = match Disk::mounted(&folder) {
        Ok(disk) => disk,
        Err(why) => return skip::skip(&why),
    };
    let file = folder.join("out.json");
    fs::write(&file, "old").unwrap();
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/cpuprofile/node16.cpuprofile");
    let line = "exec \"$0\" convert \"$1\" /dev/stdout --to speedscope 1<>\"$2\"";
    let convert = || {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", line, env!("CARGO_BIN_EXE_nodespy")])
            .args([&fixture, &file]);
        shell.status().unwrap().code()
    };
    disk.fill();
    assert_eq!(convert(), Some(1));
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    fs::remove_file(folder.join("filler")).unwrap();
    assert_eq!(convert(), Some(0));
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.ends_with(['}', '\n']), "{written}");
}

#[test]
fn a_mounted_output_on_a_full_disk_keeps_what_it_had() {
    if !is_root() {
        return skip::skip("chaos needs root");
    }
    let scratch = Scratch::new();
    let folder = scratch.path().join("disk");
    let disk = match Disk::mounted(&folder) {
        Ok(disk) => disk,
        Err(why) => return skip::skip(&why),
    };
    let file = folder.join("out.json");
    fs::write(&file, "old").unwrap();
    let output = MountedFile::new(&file, scratch.path().join("out.json"));
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/cpuprofile/node16.cpuprofile");
    let convert = || {
        let [from, to] = [&fixture, &output.0].map(|path| path.to_str().unwrap());
        run_nodespy(&["convert", from, to, "--to", "speedscope"])
    };
    disk.fill();
    convert().expect_code(1);
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    fs::remove_file(folder.join("filler")).unwrap();
    convert().expect_code(0);
    let written = fs::read_to_string(&file).unwrap();
    assert!(
        written.starts_with('{') && written.trim_end().ends_with('}'),
        "{written}"
    );
    // The next is shorter.
    fs::write(&file, "x".repeat(60_000)).unwrap();
    convert().expect_code(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), written);
}
