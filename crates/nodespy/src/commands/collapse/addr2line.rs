//! Inlined functions, as binutils' `addr2line` knows them.
//!
//! One child per file stays for all questions, because it reads the file's debug information
//! anew each time it starts. The files are named by the text, so nothing of it reaches a shell.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context;

/// An address that is in no file: its answer ends the one before.
const END: &str = "0xffffffffffffffff";
/// How many files are asked about at the same time.
const MAX_CHILDREN: usize = 64;
/// How many lines an answer may have.
const MAX_LINES: usize = 1000;

/// Asks about addresses in files.
pub(super) struct Addr2line {
    /// Whether source lines are wanted.
    has_context: bool,
    modules: HashMap<Vec<u8>, Option<Module>>,
    error: Option<std::io::Error>,
}

struct Module {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Where functions start, by name; read when an address alone is not enough.
    starts: Option<HashMap<Vec<u8>, u64>>,
}

impl Addr2line {
    pub(super) fn new(has_context: bool) -> Self {
        Self {
            has_context,
            modules: HashMap::new(),
            error: None,
        }
    }

    /// The functions at an address from the outermost to the innermost, separated by semicolons.
    pub(super) fn inlined(&mut self, address: &[u8], name: &[u8], file: &[u8]) -> Option<Vec<u8>> {
        let address = std::str::from_utf8(address).ok()?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let module = self.module(file)?;
        let mut functions = module.ask(address)?;
        if is_unknown(&functions) {
            // The address may be one of the process's and not of the file.
            let in_file = module.start_of(name, file)?;
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

    /// Ends all children, and tells if one could not be started.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        for module in self.modules.drain().filter_map(|(_, module)| module) {
            module.end();
        }
        match self.error {
            Some(error) => {
                Err(error).context("cannot start addr2line, which --inline needs (binutils has it)")
            }
            None => Ok(()),
        }
    }

    fn module(&mut self, file: &[u8]) -> Option<&mut Module> {
        if !self.modules.contains_key(file) {
            if self.modules.len() >= MAX_CHILDREN {
                for module in self.modules.drain().filter_map(|(_, module)| module) {
                    module.end();
                }
            }
            let module = match Module::start(file) {
                Ok(module) => Some(module),
                Err(error) => {
                    self.error.get_or_insert(error);
                    None
                }
            };
            self.modules.insert(file.to_vec(), module);
        }
        self.modules.get_mut(file)?.as_mut()
    }
}

fn is_unknown(functions: &[(Vec<u8>, Vec<u8>)]) -> bool {
    matches!(functions, [] | [(_, _)]) && functions.iter().all(|(name, _)| name == b"??")
}

impl Module {
    fn start(file: &[u8]) -> std::io::Result<Self> {
        let mut child = Command::new("addr2line")
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
    fn start_of(&mut self, name: &[u8], file: &[u8]) -> Option<u64> {
        let name = std::str::from_utf8(name).ok()?;
        let (function, offset) = name.rsplit_once("+0x")?;
        let offset = u64::from_str_radix(offset, 16).ok()?;
        let starts = self.starts.get_or_insert_with(|| function_starts(file));
        starts.get(function.as_bytes())?.checked_add(offset)
    }

    fn end(mut self) {
        drop(self.questions);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the functions of a file start, as `nm` lists them.
fn function_starts(file: &[u8]) -> HashMap<Vec<u8>, u64> {
    let listed = Command::new("nm")
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
