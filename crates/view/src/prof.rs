//! The sections that `node --prof-process` prints: ticks by library, JavaScript and C++ function, a
//! summary, the C++ functions JavaScript called, and who called the heaviest.
//!
//! Columns, order, rounding and what counts as what are as there, with two differences: all
//! JavaScript is called `JS:`, as node 20 and later say, and native code that node's own tool
//! cannot attribute has a name where nodespy knows one.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::io::Write;

use nodespy_analysis::Holding;
use nodespy_model::{Category, FastMap, Frame, Profile, Sample, SmallSort, Tier};

use crate::{DrawError, DrawOptions, View};

/// How many callers up the heavy profile goes.
const CALLER_LEVELS: usize = 5;
/// Callers with less than this share of their callee's ticks are left out.
const LEAST_PERCENT: f64 = 1.0;

/// What the ticks of a frame are counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Library,
    JavaScript,
    Cpp,
    Unknown,
    /// Counted as its caller.
    Skipped,
    /// Not code: says that the sample is the garbage collector's.
    Collector,
}

/// A line of text that frames are counted under.
#[derive(Debug)]
struct Label {
    text: String,
    kind: Kind,
    ticks: u64,
    /// Ticks of C++ that JavaScript entered through it.
    entry_ticks: u64,
}

/// A caller in the heavy profile.
#[derive(Debug)]
struct Node {
    label: usize,
    parent: Option<usize>,
    ticks: u64,
}

#[derive(Debug, Default)]
struct Counts {
    labels: Vec<Label>,
    nodes: Vec<Node>,
    total: u64,
    unaccounted: u64,
    gc: u64,
}

/// The report as `node --prof-process` prints it.
pub(crate) struct Prof;

impl View for Prof {
    fn name(&self) -> &'static str {
        "prof"
    }

    fn extension(&self) -> &'static str {
        "prof"
    }

    /// Its shares are of everything, as those of `node --prof-process`.
    fn holding(&self) -> Holding {
        Holding::Everything
    }

    fn draw(
        &self,
        profile: &Profile,
        options: &DrawOptions<'_>,
        output: &mut dyn Write,
    ) -> Result<(), DrawError> {
        let counts = Counts::of(profile);
        let source = options.title.unwrap_or(&profile.about.app);
        counts.print(source, output)?;
        Ok(())
    }
}

impl Counts {
    fn of(profile: &Profile) -> Self {
        let mut counts = Self::default();
        let label_of_frame = counts.label_frames(profile);
        let mut known = FastMap::default();
        let mut path = Vec::new();
        for sample in &profile.samples {
            path.clear();
            if let Some(stack) = sample.stack {
                let labels = profile.frames_of(stack);
                path.extend(labels.filter_map(|frame| label_of_frame[frame.at()]));
            }
            counts.add(sample, &path, &mut known);
        }
        counts
    }

    /// The label of each frame; none for what is not code of its own.
    fn label_frames(&mut self, profile: &Profile) -> Vec<Option<usize>> {
        let mut known: FastMap<String, usize> = FastMap::default();
        let mut labelled = |frame: &Frame| {
            if frame.kind.is_inlined()
                || profile.function(frame.function).category == Category::Idle
            {
                return None;
            }
            let (kind, text) = label(profile, frame);
            let next = self.labels.len();
            let position = *known.entry(text.into_owned()).or_insert_with_key(|text| {
                self.labels.push(Label {
                    text: text.clone(),
                    kind,
                    ticks: 0,
                    entry_ticks: 0,
                });
                next
            });
            Some(position)
        };
        profile.frames.iter().map(&mut labelled).collect()
    }

    /// Counts a sample whose frames have these labels, leaf first.
    fn add(
        &mut self,
        sample: &Sample,
        path: &[usize],
        known: &mut FastMap<(Option<usize>, usize), usize>,
    ) {
        let ticks = sample.weight;
        self.total = self.total.saturating_add(ticks);
        let is_kind = |label: &usize, kind| self.labels[*label].kind == kind;
        if path.iter().any(|label| is_kind(label, Kind::Collector)) {
            self.gc = self.gc.saturating_add(ticks);
        }
        let mut code = path
            .iter()
            .copied()
            .filter(|label| !is_kind(label, Kind::Collector))
            .peekable();
        let is_unaccounted = code.peek().is_none_or(|leaf| is_kind(leaf, Kind::Unknown));
        if is_unaccounted {
            self.unaccounted = self.unaccounted.saturating_add(ticks);
        }
        let code: Vec<usize> = code.collect();
        if let Some(entry) = self.cpp_entry(&code) {
            let entry = &mut self.labels[entry].entry_ticks;
            *entry = entry.saturating_add(ticks);
        }
        let named = code.iter().enumerate().filter(|(position, label)| {
            // Only the top of a stack is reported as unknown.
            let kind = self.labels[**label].kind;
            kind != Kind::Skipped && (kind != Kind::Unknown || *position == 0)
        });
        let named: Vec<usize> = named.map(|(_, label)| *label).collect();
        if let Some(leaf) = named.first() {
            let leaf = &mut self.labels[*leaf].ticks;
            *leaf = leaf.saturating_add(ticks);
        }
        let mut parent = None;
        for label in named.into_iter().take(CALLER_LEVELS + 1) {
            let next = self.nodes.len();
            let node = *known.entry((parent, label)).or_insert(next);
            if node == next {
                self.nodes.push(Node {
                    label,
                    parent,
                    ticks: 0,
                });
            }
            self.nodes[node].ticks = self.nodes[node].ticks.saturating_add(ticks);
            parent = Some(node);
        }
    }

    /// The outermost C++ function of a stack that ends in native code and has something else
    /// above it.
    fn cpp_entry(&self, path: &[usize]) -> Option<usize> {
        let kind = |label: usize| self.labels[label].kind;
        if !matches!(kind(*path.first()?), Kind::Cpp | Kind::Library) {
            return None;
        }
        let mut entry = None;
        for (position, &label) in path.iter().enumerate() {
            match kind(label) {
                Kind::Cpp => entry = Some(label),
                _ if position > 0 && entry.is_some() => return entry,
                _ => {}
            }
        }
        None
    }

    fn print(&self, source: &str, output: &mut dyn Write) -> std::io::Result<()> {
        let (total, unaccounted) = (self.total, self.unaccounted);
        writeln!(
            output,
            "Statistical profiling result from {source}, ({total} ticks, {unaccounted} unaccounted, 0 excluded)."
        )?;
        if total == 0 {
            return Ok(());
        }
        let libraries = self.sum(Kind::Library);
        let rest = total - libraries;
        self.print_section("Shared libraries", Kind::Library, None, output)?;
        self.print_section("JavaScript", Kind::JavaScript, Some(rest), output)?;
        self.print_section("C++", Kind::Cpp, Some(rest), output)?;
        writeln!(output, "\n [Summary]:\n   ticks  total  nonlib   name")?;
        for (name, ticks, of) in [
            ("JavaScript", self.sum(Kind::JavaScript), Some(rest)),
            ("C++", self.sum(Kind::Cpp), Some(rest)),
            ("GC", self.gc, Some(rest)),
            ("Shared libraries", libraries, None),
        ] {
            print_line(name, ticks, total, of, output)?;
        }
        if unaccounted > 0 {
            print_line("Unaccounted", unaccounted, total, None, output)?;
        }
        self.print_entries(output)?;
        self.print_heavy(output)
    }

    fn sum(&self, kind: Kind) -> u64 {
        let of_kind = self.labels.iter().filter(|label| label.kind == kind);
        of_kind.fold(0, |sum, label| sum.saturating_add(label.ticks))
    }

    fn print_section(
        &self,
        title: &str,
        kind: Kind,
        rest: Option<u64>,
        output: &mut dyn Write,
    ) -> std::io::Result<()> {
        writeln!(output, "\n [{title}]:\n   ticks  total  nonlib   name")?;
        let mut labels: Vec<&Label> = self
            .labels
            .iter()
            .filter(|label| label.kind == kind && label.ticks > 0)
            .collect();
        labels.small_sort_by_key(|label| Reverse((label.ticks, &label.text)));
        for label in labels {
            print_line(&label.text, label.ticks, self.total, rest, output)?;
        }
        Ok(())
    }

    fn print_entries(&self, output: &mut dyn Write) -> std::io::Result<()> {
        writeln!(
            output,
            "\n [C++ entry points]:\n   ticks    cpp   total   name"
        )?;
        let mut entries: Vec<&Label> = self
            .labels
            .iter()
            .filter(|label| label.entry_ticks > 0)
            .collect();
        entries.small_sort_by_key(|label| Reverse((label.entry_ticks, &label.text)));
        let all = entries
            .iter()
            .fold(0u64, |sum, label| sum.saturating_add(label.entry_ticks));
        for entry in entries {
            print_line(
                &entry.text,
                entry.entry_ticks,
                all,
                Some(self.total),
                output,
            )?;
        }
        Ok(())
    }

    fn print_heavy(&self, output: &mut dyn Write) -> std::io::Result<()> {
        writeln!(
            output,
            "\n [Bottom up (heavy) profile]:\n  Note: percentage shows a share of a particular \
             caller in the total\n  amount of its parent calls.\n  Callers occupying less than \
             {LEAST_PERCENT:.1}% are not shown.\n\n   ticks parent  name"
        )?;
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut roots = Vec::new();
        for (position, node) in self.nodes.iter().enumerate() {
            match node.parent {
                Some(parent) => children[parent].push(position),
                None => roots.push(position),
            }
        }
        self.print_callers(&roots, self.total, 0, &children, output)
    }

    /// Goes as deep as [`CALLER_LEVELS`].
    fn print_callers(
        &self,
        callers: &[usize],
        of: u64,
        level: usize,
        children: &[Vec<usize>],
        output: &mut dyn Write,
    ) -> std::io::Result<()> {
        let text = |node: usize| &self.labels[self.nodes[node].label].text;
        let mut callers = callers.to_vec();
        callers.small_sort_by_key(|node| Reverse((self.nodes[*node].ticks, text(*node))));
        for node in callers {
            let ticks = self.nodes[node].ticks;
            let share = ticks as f64 / of as f64 * 100.0;
            if share < LEAST_PERCENT {
                break;
            }
            writeln!(
                output,
                "  {ticks:>5}  {:>5}%  {:indent$}{}",
                one_digit(share),
                "",
                text(node),
                indent = 2 * level
            )?;
            self.print_callers(&children[node], ticks, level + 1, children, output)?;
            if level == 0 {
                writeln!(output)?;
            }
        }
        Ok(())
    }
}

fn print_line(
    name: &str,
    ticks: u64,
    total: u64,
    rest: Option<u64>,
    output: &mut dyn Write,
) -> std::io::Result<()> {
    let percent = |of: u64| one_digit(ticks as f64 * 100.0 / of as f64);
    let of_rest = match rest {
        Some(rest) => format!("{:>5}%  ", percent(rest)),
        None => " ".repeat(8),
    };
    writeln!(
        output,
        "  {ticks:>5}  {:>5}%  {of_rest}{name}",
        percent(total)
    )
}

/// A number with one digit after the point, rounded as JavaScript's `toFixed` does: halves go up.
fn one_digit(number: f64) -> String {
    let quarters = number * 4.0;
    let is_half = quarters.fract() == 0.0 && quarters % 2.0 == 1.0;
    match is_half {
        true => format!("{:.1}", number + 0.01),
        false => format!("{number:.1}"),
    }
}

fn label<'a>(profile: &'a Profile, frame: &Frame) -> (Kind, Cow<'a, str>) {
    let name = profile.name_of(frame.function);
    let file = profile.file_of(frame.function);
    match profile.function(frame.function).category {
        Category::App | Category::Dependency | Category::NodeCore => {
            let name = match name {
                "(anonymous)" => "<anonymous>",
                name => name,
            };
            let location = profile.location_of(frame.function);
            let text = format!("JS: {}{name} {location}", mark(frame.tier));
            (Kind::JavaScript, text.trim_end().to_owned().into())
        }
        Category::Wasm => {
            let text = format!("JS: {}{name}", mark(frame.tier));
            (Kind::JavaScript, text.into())
        }
        Category::RegExp => (Kind::JavaScript, format!("RegExp: {name}").into()),
        Category::Internal if name.ends_with("Handler") => (Kind::Skipped, name.into()),
        Category::Builtin | Category::Internal if file.is_empty() => {
            (Kind::JavaScript, format!("Builtin: {name}").into())
        }
        Category::Gc if file.is_empty() => (Kind::Collector, name.into()),
        Category::Unknown | Category::Idle => (Kind::Unknown, "UNKNOWN".into()),
        Category::Native | Category::Gc | Category::Kernel
            if name.starts_with('[') && !file.is_empty() =>
        {
            (Kind::Library, file.into())
        }
        _ => (Kind::Cpp, name.into()),
    }
}

/// V8's mark of the compiler that made code.
fn mark(tier: Tier) -> &'static str {
    match tier {
        Tier::None => "",
        Tier::Interpreted => "~",
        Tier::Baseline => "^",
        Tier::Maglev => "+",
        Tier::Optimized => "*",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_up_as_javascript_does() {
        assert_eq!(one_digit(6.25), "6.3");
        assert_eq!(one_digit(6.75), "6.8");
        assert_eq!(one_digit(0.05), "0.1");
        assert_eq!(one_digit(99.96), "100.0");
        assert_eq!(one_digit(2.0), "2.0");
    }

    #[test]
    fn a_profile_without_samples_is_one_line() {
        let mut output = Vec::new();
        Prof.draw(&Profile::default(), &DrawOptions::default(), &mut output)
            .unwrap();
        assert_eq!(
            String::from_utf8(output).unwrap(),
            "Statistical profiling result from , (0 ticks, 0 unaccounted, 0 excluded).\n"
        );
    }
}
