//! Node, run until it has printed its objects, and what it printed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Failure;

/// What Node runs: a function per kind of code, then prints.
const PROGRAM: &str = include_str!("program.js");
const FLAGS: [&str; 7] = [
    "--allow-natives-syntax",
    "--no-regexp-tier-up",
    "--no-enable-lazy-source-positions",
    "--print-opt-code",
    "--print-opt-code-filter=optimized*",
    "--print-bytecode",
    "--print-bytecode-filter=interpreted",
];
/// How long Node may take to get there.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A Node that has printed everything and waits; killed when dropped.
pub(super) struct Running {
    child: Child,
    pub(super) lines: Vec<String>,
}

impl Running {
    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn start(binary: &Path) -> Result<Self, Failure> {
        let mut child = Command::new(binary)
            .args(FLAGS)
            .args(["-e", PROGRAM])
            .env_remove("NODE_OPTIONS")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut running = Self {
            child,
            lines: Vec::new(),
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let until = Instant::now() + TIMEOUT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = receiver
                .recv_timeout(left)
                .map_err(|_| "it did not print what it was asked to")?;
            if line == "ready" {
                return Ok(running);
            }
            running.lines.push(line);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A block of `--print-opt-code`.
#[derive(Debug, Default)]
pub(super) struct PrintedCode {
    pub(super) name: String,
    pub(super) start: u64,
    pub(super) size: u64,
    /// Offsets into the code and into the source.
    pub(super) positions: Vec<(i64, u32)>,
    pub(super) inlined: Vec<u64>,
}

/// A block of `%DebugPrint`.
#[derive(Debug, Default)]
pub(super) struct PrintedObject {
    pub(super) address: u64,
    pub(super) shared: u64,
    pub(super) code: u64,
    /// What follows the address of the code.
    pub(super) code_kind: String,
    pub(super) bytecode: u64,
}

/// What V8 printed.
#[derive(Debug, Default)]
pub(super) struct Printed {
    pub(super) codes: Vec<PrintedCode>,
    /// Address of the first bytecode, and of the source position table.
    pub(super) bytecodes: u64,
    pub(super) bytecode_positions: u64,
    /// The number of the bytecode that jumps back to the start of a loop.
    pub(super) bytecode_loop: Option<u8>,
    pub(super) objects: BTreeMap<&'static str, PrintedObject>,
}

/// The objects the program prints, in its order.
const PRINTED: [&str; 7] = [
    "optimizedOne",
    "optimizedTwo",
    "baselined",
    "interpreted",
    "maglevved",
    "regexp",
    "constructors",
];

impl Printed {
    pub(super) fn parse(lines: &[String]) -> Result<Self, Failure> {
        let mut printed = Self::default();
        let mut next = PRINTED.iter();
        let mut object = None;
        let mut section = "";
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let Some(rest) = line.strip_prefix("DebugPrint: ") {
                object = next.next().copied();
                let name = object.ok_or("it printed more than it was asked to")?;
                let address = address_in(rest).ok_or("it printed no address")?;
                let entry = printed.objects.entry(name).or_default();
                entry.address = address;
                section = "";
            } else if let Some(name) = object {
                let entry = printed.objects.entry(name).or_default();
                let address = words.get(2).and_then(|word| address_in(word)).unwrap_or(0);
                match words.get(..2) {
                    Some(["-", "shared_info:"]) => entry.shared = address,
                    Some(["-", "bytecode:"]) => entry.bytecode = address,
                    Some(["-", "code:"]) => {
                        entry.code = address;
                        entry.code_kind = words[3..].join(" ");
                    }
                    _ => {}
                }
            } else if let Some(name) = line.strip_prefix("name = ") {
                printed.codes.push(PrintedCode {
                    name: name.to_owned(),
                    ..Default::default()
                });
                section = "";
            } else if line.starts_with("Instructions (size = ") {
                section = "instructions";
                if let Some(code) = printed.codes.last_mut() {
                    let size = words
                        .last()
                        .and_then(|word| word.trim_end_matches(')').parse().ok());
                    code.size = size.unwrap_or(0);
                }
            } else if line.starts_with("Source positions:") {
                section = "positions";
            } else if line.starts_with("Inlined functions") {
                section = "inlined";
            } else if line.starts_with("[generated bytecode") {
                section = "bytecode";
            } else if line.starts_with("Source Position Table") && section == "bytecode" {
                section = "bytecode positions";
            } else if words.is_empty() {
                section = if section == "bytecode" { section } else { "" };
            } else {
                printed.line(section, &words);
            }
        }
        Ok(printed)
    }

    /// A line inside a section.
    fn line(&mut self, section: &str, words: &[&str]) {
        let address = words.iter().find_map(|word| address_in(word));
        if section == "bytecode" && words.contains(&"JumpLoop") {
            let mut bytes = words.iter().skip_while(|word| **word != ":");
            let first = bytes.nth(1);
            self.bytecode_loop = first.and_then(|byte| u8::from_str_radix(byte, 16).ok());
        }
        match (section, self.codes.last_mut(), address) {
            ("instructions", Some(code), Some(address)) if code.start == 0 => code.start = address,
            ("inlined", Some(code), Some(address)) => code.inlined.push(address),
            ("positions", Some(code), None) => {
                let at = i64::from_str_radix(words[0], 16);
                let place = words.get(1).and_then(|word| word.parse().ok());
                if let (Ok(at), Some(place)) = (at, place) {
                    code.positions.push((at, place));
                }
            }
            ("bytecode", _, Some(address)) if self.bytecodes == 0 && words.contains(&"@") => {
                self.bytecodes = address;
            }
            ("bytecode positions", _, Some(address)) if self.bytecode_positions == 0 => {
                self.bytecode_positions = address;
            }
            _ => {}
        }
    }

    pub(super) fn object(&self, name: &str) -> Result<&PrintedObject, String> {
        self.objects
            .get(name)
            .ok_or_else(|| format!("{name} was not printed"))
    }

    /// The optimized functions: what was printed of their code, and the function.
    pub(super) fn optimized(&self) -> Result<Vec<(&PrintedCode, &PrintedObject)>, String> {
        ["optimizedOne", "optimizedTwo"]
            .into_iter()
            .map(|name| {
                let code = self.codes.iter().find(|code| code.name == name);
                let code = code.ok_or_else(|| format!("the code of {name} was not printed"))?;
                Ok((code, self.object(name)?))
            })
            .collect()
    }
}

/// The number a word starts with, if it is an address.
fn address_in(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x")?;
    let end = digits
        .find(|digit: char| !digit.is_ascii_hexdigit())
        .unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jump_back_of_a_loop_is_read() {
        let lines = [
            "[generated bytecode for function: interpreted]",
            "         0x1663c0c837cd @    5 : 0b 03             Ldar a0",
            "   37 E> 0x1663c0c837e2 @   26 : 92 15 00 03       JumpLoop [21], [0], [3] (0x1663c0c837cd @ 5)",
        ];
        let lines: Vec<String> = lines.map(str::to_owned).to_vec();
        let printed = Printed::parse(&lines).unwrap();
        assert_eq!(printed.bytecode_loop, Some(0x92));
        assert_eq!(printed.bytecodes, 0x1663_c0c8_37cd);
    }

    #[test]
    fn printed_code_is_read() {
        let lines = [
            "name = optimizedOne",
            "Instructions (size = 640)",
            "0x7fe338002940     0  55                   push rbp",
            "0x7fe338002941     1  4889e5               REX.W movq rbp,rsp",
            "",
            "Source positions:",
            " pc offset  position",
            "         b        58",
            "        19        93",
            "",
            "Inlined functions (count = 1)",
            " 0x0f95ed5e7d91 <SharedFunctionInfo inner>",
            "",
            "DebugPrint: 0x2a15fbf2d879: [Function]",
            " - shared_info: 0x0f95ed5e7dd9 <SharedFunctionInfo optimizedOne>",
            " - code: 0x0fadf9930aa9 <Code TURBOFAN_JS>",
        ];
        let lines: Vec<String> = lines.map(str::to_owned).to_vec();
        let printed = Printed::parse(&lines).unwrap();
        let code = &printed.codes[0];
        assert_eq!((code.start, code.size), (0x7fe3_3800_2940, 640));
        assert_eq!(code.positions, [(0xb, 58), (0x19, 93)]);
        assert_eq!(code.inlined, [0x0f95_ed5e_7d91]);
        let object = printed.object("optimizedOne").unwrap();
        assert_eq!(object.address, 0x2a15_fbf2_d879);
        assert_eq!(object.shared, 0x0f95_ed5e_7dd9);
        assert_eq!(object.code, 0x0fad_f993_0aa9);
        assert_eq!(object.code_kind, "<Code TURBOFAN_JS>");
    }
}
