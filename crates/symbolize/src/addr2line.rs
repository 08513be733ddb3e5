//! Inlined functions, as binutils' `addr2line` knows them.
//!
//! One child per file stays for all questions, because it reads the file's debug information
//! anew each time it starts. The text names the files, so nothing of it reaches a shell.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// An address that is in no file: its answer ends the one before.
const END: &str = "0xffffffffffffffff";
/// How many files are asked about at the same time.
const MAX_CHILDREN: usize = 64;
/// How many lines an answer may have.
const MAX_LINES: usize = 1000;

/// Asks about addresses in files.
#[derive(Debug)]
pub struct Addr2line {
    /// Whether source lines are wanted.
    has_context: bool,
    programs: Programs,
    modules: HashMap<Vec<u8>, Option<Module>>,
    error: Option<std::io::Error>,
}

/// The programs of binutils.
#[derive(Debug)]
struct Programs {
    addr2line: OsString,
    nm: OsString,
}

#[derive(Debug)]
struct Module {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Where functions start, by name; read when an address alone is not enough.
    starts: Option<HashMap<Vec<u8>, u64>>,
}

impl Addr2line {
    /// With their source lines, or without.
    pub fn new(has_context: bool) -> Self {
        Self::with_programs(
            has_context,
            Programs {
                addr2line: "addr2line".into(),
                nm: "nm".into(),
            },
        )
    }

    fn with_programs(has_context: bool, programs: Programs) -> Self {
        Self {
            has_context,
            programs,
            modules: HashMap::new(),
            error: None,
        }
    }

    /// The functions at an address from the outermost to the innermost, separated by semicolons.
    pub fn inlined(&mut self, address: &[u8], name: &[u8], file: &[u8]) -> Option<Vec<u8>> {
        let address = std::str::from_utf8(address).ok()?;
        let address = u64::from_str_radix(address, 16).ok()?;
        self.start(file);
        let module = self.modules.get_mut(file)?.as_mut()?;
        let mut functions = module.ask(address)?;
        if is_unknown(&functions) {
            // The address may be one of the process's and not of the file.
            let in_file = module.start_of(name, file, &self.programs.nm)?;
            functions = module.ask(in_file)?;
        }
        if is_unknown(&functions) {
            return None;
        }
        let has_context = self.has_context;
        let texts = functions.iter().rev().map(|(function, place)| {
            let mut text = function.clone();
            if has_context {
                text.push(b':');
                text.extend_from_slice(place);
            }
            text
        });
        Some(texts.collect::<Vec<_>>().join(&b';'))
    }

    /// Ends all children; an error if one could not be started.
    pub fn finish(mut self) -> std::io::Result<()> {
        for module in self.modules.drain().filter_map(|(_, module)| module) {
            module.end();
        }
        self.error.map_or(Ok(()), Err)
    }

    /// Starts the child of a file, unless it runs.
    fn start(&mut self, file: &[u8]) {
        if !self.modules.contains_key(file) {
            if self.modules.len() >= MAX_CHILDREN {
                for module in self.modules.drain().filter_map(|(_, module)| module) {
                    module.end();
                }
            }
            let module = match Module::start(&self.programs.addr2line, file) {
                Ok(module) => Some(module),
                Err(error) => {
                    self.error.get_or_insert(error);
                    None
                }
            };
            self.modules.insert(file.to_vec(), module);
        }
    }
}

fn is_unknown(functions: &[(Vec<u8>, Vec<u8>)]) -> bool {
    matches!(functions, [] | [(_, _)]) && functions.iter().all(|(name, _)| name == b"??")
}

impl Module {
    fn start(program: &OsStr, file: &[u8]) -> std::io::Result<Self> {
        let mut child = Command::new(program)
            .args(["-a", "-i", "-f", "-s", "-C", "-e"])
            .arg(OsStr::from_bytes(file))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let questions = child.stdin.take().expect("it was asked for");
        let answers = BufReader::new(child.stdout.take().expect("it was asked for"));
        Ok(Self {
            child,
            questions,
            answers,
            starts: None,
        })
    }

    /// The functions at an address, innermost first, with their places.
    fn ask(&mut self, address: u64) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        writeln!(self.questions, "0x{address:x}\n{END}").ok()?;
        self.questions.flush().ok()?;
        let mut lines = Vec::new();
        loop {
            let line = self.line()?;
            if line.starts_with(END.as_bytes()) {
                break;
            }
            if lines.len() < MAX_LINES {
                lines.push(line);
            }
        }
        // The end has a function and a place like any other address.
        self.line()?;
        self.line()?;
        let pairs = lines.get(1..)?.chunks_exact(2);
        Some(
            pairs
                .map(|pair| (pair[0].clone(), without_discriminator(&pair[1]).to_vec()))
                .collect(),
        )
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        let taken = self.answers.read_until(b'\n', &mut line).ok()?;
        line.pop_if(|byte| *byte == b'\n');
        (taken > 0).then_some(line)
    }

    /// The address in the file of `function+0x1f`.
    fn start_of(&mut self, name: &[u8], file: &[u8], nm: &OsStr) -> Option<u64> {
        let name = std::str::from_utf8(name).ok()?;
        let (function, offset) = name.rsplit_once("+0x")?;
        let offset = u64::from_str_radix(offset, 16).ok()?;
        let starts = self.starts.get_or_insert_with(|| function_starts(file, nm));
        starts.get(function.as_bytes())?.checked_add(offset)
    }

    fn end(mut self) {
        drop(self.questions);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the functions of a file start, as `nm` lists them.
fn function_starts(file: &[u8], nm: &OsStr) -> HashMap<Vec<u8>, u64> {
    let listed = Command::new(nm)
        .arg("--")
        .arg(OsStr::from_bytes(file))
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .output();
    let text = listed.map(|listed| listed.stdout).unwrap_or_default();
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let mut words = line.splitn(3, |byte| *byte == b' ');
            let address = std::str::from_utf8(words.next()?).ok()?;
            let address = u64::from_str_radix(address, 16).ok()?;
            let name = words.nth(1)?;
            Some((name.to_vec(), address))
        })
        .collect()
}

fn without_discriminator(place: &[u8]) -> &[u8] {
    let mark = b" (discriminator ";
    let at = place.windows(mark.len()).position(|window| window == mark);
    at.map_or(place, |at| &place[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::OnceLock;

    /// Knows 0x10 (`leaf`, inlined into `caller`) and 0x1025 (`start`+0x25), and writes beside the
    /// file that it was started.
    const ADDR2LINE: &str = r#"#!/bin/sh
echo started >> "$7.starts"
while read -r address; do
    echo "$address"
    case "$address" in
        0x10) printf 'leaf\na.c:3 (discriminator 2)\ncaller\na.c:9\n' ;;
        0x1025) printf 'start\nb.c:1\n' ;;
        *) printf '??\n??:0\n' ;;
    esac
done
"#;
    const NM: &str = "#!/bin/sh\nprintf '0000000000001000 T start\\nnonsense\\n'\n";

    /// The stand-ins, written before any of these tests starts a program: one that is open for
    /// writing in a child just forked can't be run.
    fn programs() -> Programs {
        static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
        let folder = FOLDER.get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in [("addr2line", ADDR2LINE), ("nm", NM)] {
                let path = folder.path().join(name);
                std::fs::write(&path, text).unwrap();
                std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
            }
            folder
        });
        Programs {
            addr2line: folder.path().join("addr2line").into(),
            nm: folder.path().join("nm").into(),
        }
    }

    #[test]
    fn functions_come_outermost_first_and_one_child_answers_for_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        let file = file.as_os_str().as_bytes();
        for (has_context, expected) in [(false, "caller;leaf"), (true, "caller:a.c:9;leaf:a.c:3")] {
            let mut asked = Addr2line::with_programs(has_context, programs());
            for _ in 0..3 {
                let found = asked.inlined(b"10", b"leaf+0x1", file).unwrap();
                assert_eq!(String::from_utf8(found).unwrap(), expected);
            }
            asked.finish().unwrap();
        }
        let starts = std::fs::read_to_string(folder.path().join("x.starts")).unwrap();
        assert_eq!(starts.lines().count(), 2);
    }

    #[test]
    fn an_address_of_the_process_is_found_by_the_name_of_its_function() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        let file = file.as_os_str().as_bytes();
        let mut asked = Addr2line::with_programs(false, programs());
        let found = asked.inlined(b"55550025", b"start+0x25", file);
        assert_eq!(found.as_deref(), Some(&b"start"[..]));
        for (address, name) in [
            (&b"55550025"[..], &b"other+0x25"[..]),
            (b"55550025", b"start"),
            (b"55550025", b"start+0xffffffffffffffff"),
            (b"zz", b"start+0x25"),
        ] {
            assert_eq!(asked.inlined(address, name, file), None);
        }
        asked.finish().unwrap();
    }

    #[test]
    fn a_program_that_is_missing_is_an_error_at_the_end() {
        let missing = Programs {
            addr2line: "/nonexistent/addr2line".into(),
            ..programs()
        };
        let mut asked = Addr2line::with_programs(false, missing);
        assert_eq!(asked.inlined(b"10", b"leaf+0x1", b"/bin/x"), None);
        let error = asked.finish().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    }
}
