//! The words and columns that the screen and the plain lines share.

use nodespy_capture::engine::Attached;
use nodespy_model::{Category, printable};
use nodespy_view::columns::{keep_last_parts, keep_start, short_name, width_of};

use super::totals::{FunctionRow, Sums, Window};
use crate::cli::TopBy;
use crate::output::grouped;

/// What two numbers and the gaps take before the name of a function.
pub(super) const NUMBERS_COLUMNS: usize = 17;
/// Names and places share what is left; a name gets no more than this.
const WIDEST_NAME: usize = 60;

/// A function, ready to be shown.
pub(super) struct Cells {
    pub(super) numbers: String,
    /// Filled up to the width of its column.
    pub(super) name: String,
    pub(super) place: String,
    pub(super) category: Category,
}

/// The cells of some functions, for lines of `width` columns.
pub(super) fn cells(
    rows: &[FunctionRow<'_>],
    by: &TopBy,
    samples: u64,
    width: usize,
) -> Vec<Cells> {
    let room = width.saturating_sub(NUMBERS_COLUMNS + 2);
    let names: Vec<String> = rows
        .iter()
        .map(|row| short_name(&printable(&row.key.name)))
        .collect();
    let places: Vec<String> = match by {
        TopBy::Function => rows.iter().map(place_of).collect(),
        TopBy::Route | TopBy::Label(_) => vec![String::new(); rows.len()],
    };
    let longest = |texts: &[String]| texts.iter().map(|text| width_of(text)).max().unwrap_or(0);
    // Each gets what it needs when there is room for both, else at least half.
    let name_width = longest(&names)
        .min(WIDEST_NAME)
        .min(room.saturating_sub(longest(&places).min(room / 2)));
    rows.iter()
        .zip(names.iter().zip(&places))
        .map(|(row, (name, place))| {
            // A name of C++ says most at its end, one of JavaScript at its start.
            let name = match name.contains("::") {
                true => keep_last_parts(name, "::", name_width.max(1)),
                false => keep_start(name, name_width.max(1)),
            };
            let filling = " ".repeat(name_width.saturating_sub(width_of(&name)));
            Cells {
                numbers: numbers(row, by, samples),
                name: format!("{name}{filling}"),
                place: keep_last_parts(place, "/", room.saturating_sub(name_width).max(1)),
                category: row.category,
            }
        })
        .collect()
}

/// Self and total of a function; a route or the value of a label has no self, but how many samples there are says how sure its share is.
fn numbers(row: &FunctionRow<'_>, by: &TopBy, samples: u64) -> String {
    let own = percent(row.own, samples);
    match by {
        TopBy::Function => format!("{own:>6.1}%{:>7.1}%  ", percent(row.total, samples)),
        TopBy::Route | TopBy::Label(_) => format!("{own:>6.1}%{:>8}  ", grouped(row.own)),
    }
}

/// The three columns: two of numbers, one of names.
pub(super) fn headings(by: &TopBy) -> [&str; 3] {
    match by {
        TopBy::Function => ["self", "total", "function"],
        TopBy::Route => ["share", "samples", "route"],
        TopBy::Label(key) => ["share", "samples", key],
    }
}

/// File and line of JavaScript, the module of native code.
fn place_of(row: &FunctionRow<'_>) -> String {
    let file = printable(&row.key.file);
    match row.category {
        Category::App | Category::Dependency | Category::NodeCore if !file.is_empty() => {
            match row.key.line {
                0 => file.into_owned(),
                line => format!("{file}:{line}"),
            }
        }
        Category::Native | Category::Unknown if !file.is_empty() => {
            file.rsplit('/').next().unwrap_or_default().to_owned()
        }
        category => category.label().to_owned(),
    }
}

/// `part` of `whole`, 0 to 100.
fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// What takes the samples, as an agent says it.
pub(super) fn engine(attached: &Attached) -> &'static str {
    match (attached.has_ebpf, attached.is_cpu_wide) {
        (true, true) => "eBPF, CPU-wide",
        (true, false) => "eBPF",
        (false, _) if attached.has_readers => "perf events, reader threads",
        (false, _) => "perf events, no eBPF",
    }
}

/// `CPU 99 % of a core   JS 97.0 %   GC 1.0 %   native 1.0 %   kernel 1.0 %`.
pub(super) fn load(sums: &Sums) -> String {
    let shares = &sums.shares;
    let whole = shares.total();
    let parts = [
        (shares.javascript, "JS"),
        (shares.gc, "GC"),
        (shares.native, "native"),
        (shares.kernel, "kernel"),
        (shares.unknown, "unknown"),
    ];
    let mut text = format!("CPU {:.0} % of a core", sums.cpu_percent());
    for (weight, name) in parts {
        // The first two are always there: they are what one looks for.
        if weight > 0 || (whole > 0 && matches!(name, "JS" | "GC")) {
            text.push_str(&format!("   {name} {:.1} %", percent(weight, whole)));
        }
    }
    text
}

/// `990 samples at 99 Hz, 0 lost, last 10 s`; `210 samples, which count for 990 at 99 Hz` where fewer are taken.
pub(super) fn quality(sums: &Sums, rate_hz: u32, lost: u64, window: Window) -> String {
    let counted = sums.shares.total();
    let stands_for = match sums.samples < counted {
        true => format!(", which count for {}", grouped(counted)),
        false => String::new(),
    };
    let mut text = format!(
        "{} samples{stands_for} at {rate_hz} Hz, {} lost",
        grouped(sums.samples.min(counted)),
        grouped(lost)
    );
    if sums.unnamed_percent() >= 0.05 {
        text.push_str(&format!(", {:.1} % of JS unnamed", sums.unnamed_percent()));
    }
    let seconds = sums.length as f64 / 1e9;
    text.push_str(&match window {
        Window::Last => format!(", last {seconds:.0} s"),
        Window::SinceStart => format!(", since start ({seconds:.0} s)"),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::super::capture::FunctionKey;
    use super::*;

    #[test]
    fn a_row_fits_its_line_and_keeps_the_line_number() {
        let key = FunctionKey {
            name: "aRatherLongNameOfAFunctionThatNobodyCanReadInOneGo".to_owned(),
            file: "/srv/app/with/many/folders/in/its/path/handlers.js".to_owned(),
            line: 1234,
            column: 1,
        };
        let row = FunctionRow {
            key: &key,
            category: Category::App,
            own: 1,
            total: 3,
        };
        for width in [40, 60, 80, 200] {
            let cells = cells(std::slice::from_ref(&row), &TopBy::Function, 4, width);
            let line = format!("{}{}  {}", cells[0].numbers, cells[0].name, cells[0].place);
            assert!(width_of(&line) <= width, "{width}: {line}");
            assert!(line.ends_with(":1234"), "{line}");
            assert!(line.contains("25.0%") && line.contains("75.0%"), "{line}");
        }
    }
}
