//! `nodespy diff`: two sets of recordings, what changed between them, and how sure that is.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use nodespy_analysis::{
    Basis, CompareOptions, Comparison, ProfilePair, Rows, RunCosts, Verdict, Work, compare,
    self_check,
};
use nodespy_model::Profile;
use nodespy_view::svg::draw_svg_comparison;
use nodespy_view::{Terminal, comparison_json, comparison_markdown, comparison_text};

use crate::cli::{By, ComparingArgs, DiffArgs, DiffFormat, FailOn};
use crate::comparing::{Base, shown, shown_by};
use crate::confine::Confinement;
use crate::failure::Failure;
use crate::output::{self, Stream};
use crate::output_file::OutputFile;
use crate::save;

mod middle;

use middle::Middle;

const REGRESSION: u8 = 10;
const SUSPECTED: u8 = 11;
/// A file is not a screen: lines may be long.
const FILE_COLUMNS: usize = 160;

/// What fails where no limit is given.
pub(crate) const EVERY_REGRESSION: [FailOn; 2] = [
    FailOn {
        is_total: true,
        change: 0.0,
    },
    FailOn {
        is_total: false,
        change: 0.0,
    },
];

pub(crate) fn run(arguments: &DiffArgs) -> anyhow::Result<ExitCode> {
    let comparing = &arguments.comparing;
    let inputs = || arguments.files.iter().chain(&arguments.after);
    if arguments.self_check {
        Confinement::reading(inputs(), &comparing.read).apply();
        check_files(&[arguments.files.as_slice()])?;
        let side = read_side(&arguments.files, comparing, Keeps::Costs)?;
        let check = self_check(side.runs, &options(comparing))?;
        output::result(&check_line(check), Stream::Standard);
        return Ok(ExitCode::SUCCESS);
    }
    let (before, after) = sides(arguments)?;
    let outputs = Outputs::check(comparing)?;
    Confinement::reading(inputs(), &comparing.read)
        .writing(outputs.folders())
        .apply();
    let limits = match comparing.fail_on.as_slice() {
        [] if comparing.strict => &EVERY_REGRESSION[..],
        limits => limits,
    };
    outputs.compare([before, after], comparing, &options(comparing), limits)
}

pub(crate) fn options(comparing: &ComparingArgs) -> CompareOptions {
    CompareOptions {
        min_change: comparing.min_change,
        basis: comparing.share.then_some(Basis::Share),
        work: comparing.work(),
        rows: match comparing.by {
            By::Function => Rows::Functions,
            By::Route => Rows::Routes,
        },
        ..CompareOptions::default()
    }
}

/// The files that a comparison is written to, known to be writable before anything is read or recorded.
pub(crate) struct Outputs(Vec<(FileFormat, OutputFile)>);

impl Outputs {
    pub(crate) fn check(comparing: &ComparingArgs) -> anyhow::Result<Self> {
        let checked = |path: &PathBuf| {
            let format = FileFormat::of(path)?;
            if comparing.by == By::Route && format.is_picture() {
                bail!(Failure::Usage(format!(
                    "{}: --by route is written as .md, .json or .txt; a page groups by route itself",
                    path.display()
                )));
            }
            Ok((format, OutputFile::named(path)?))
        };
        let files: anyhow::Result<_> = comparing.output.iter().map(checked).collect();
        Ok(Self(files?))
    }

    pub(crate) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        self.0.iter().filter_map(|(_, file)| file.folder())
    }

    /// Compares the files of two sides, prints and writes what comes out, and returns the code that `limits` ask for.
    pub(crate) fn compare(
        &self,
        sides: [&[PathBuf]; 2],
        comparing: &ComparingArgs,
        options: &CompareOptions,
        limits: &[FailOn],
    ) -> anyhow::Result<ExitCode> {
        check_files(&sides)?;
        let has_picture = self.0.iter().any(|(format, _)| format.is_picture());
        let [earlier, later] = read_sides(sides, comparing, has_picture)?;
        let pair = earlier.middle.zip(later.middle);
        let pair = pair.map(|(earlier, later)| [earlier, later]);
        let drawn = || {
            pair.as_ref()
                .ok_or_else(|| anyhow!("a side has no run to draw"))
        };
        let comparison = compare(earlier.runs, later.runs, options)?;
        print(&comparison, comparing.format);
        for (format, file) in &self.0 {
            let content = match format {
                FileFormat::Page => page(drawn()?, comparing, &comparison)?,
                FileFormat::Svg => picture(drawn()?, comparing, &comparison)?,
                FileFormat::Text => as_text(
                    &comparison,
                    Terminal {
                        has_color: false,
                        width_columns: FILE_COLUMNS,
                    },
                ),
                FileFormat::Markdown => comparison_markdown(&comparison).into_bytes(),
                FileFormat::Json => comparison_json(&comparison).into_bytes(),
            };
            file.write(|output| Ok(output.write_all(&content)?))?;
            output::note(&format!("Wrote {}.", file.path().display()));
        }
        Ok(ExitCode::from(code(&comparison, limits, comparing.strict)))
    }
}

/// The files of both sides: those before and behind `--`, or two.
fn sides(arguments: &DiffArgs) -> anyhow::Result<(&[PathBuf], &[PathBuf])> {
    match (arguments.files.as_slice(), arguments.after.as_slice()) {
        ([before, after], []) => Ok((std::slice::from_ref(before), std::slice::from_ref(after))),
        ([_], []) => bail!(Failure::Usage(
            "one recording has nothing to be compared with: nodespy diff BEFORE AFTER".to_owned()
        )),
        (files, []) => bail!(Failure::Usage(format!(
            "{} recordings, and which of them are the later ones? Put them behind --: nodespy diff BEFORE… -- AFTER…",
            files.len()
        ))),
        (before, after) => Ok((before, after)),
    }
}

/// A name with a typo is known before an hour of reading.
fn check_files(sides: &[&[PathBuf]]) -> anyhow::Result<()> {
    let files = sides.iter().copied().flatten();
    let missing: Vec<String> = files
        .filter(|path| path.as_path() != Path::new("-") && !path.exists())
        .map(|path| path.display().to_string())
        .collect();
    match missing.as_slice() {
        [] => Ok(()),
        [one] => bail!("there is no file {one}"),
        several => bail!("there are no files {}", several.join(", ")),
    }
}

/// What is kept of the recordings of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// What is compared.
    Costs,
    /// That, and one recording to draw.
    CostsAndMiddle,
}

/// The recordings of one side, as far as they are needed.
struct ReadSide {
    runs: Vec<RunCosts>,
    /// A picture holds one run: the one in the middle by its cost.
    middle: Option<Profile>,
}

/// Reads both sides at once, each recording after the other.
fn read_sides(
    sides: [&[PathBuf]; 2],
    comparing: &ComparingArgs,
    has_picture: bool,
) -> anyhow::Result<[ReadSide; 2]> {
    let keeps = match has_picture {
        true => Keeps::CostsAndMiddle,
        false => Keeps::Costs,
    };
    let [before, after] = sides;
    let (before, after) = std::thread::scope(|scope| {
        let after = scope.spawn(move || read_side(after, comparing, keeps));
        (read_side(before, comparing, keeps), after.join())
    });
    let after = after.map_err(|_| anyhow!("reading the later side ended early"))?;
    Ok([before?, after?])
}

fn read_side(
    paths: &[PathBuf],
    comparing: &ComparingArgs,
    keeps: Keeps,
) -> anyhow::Result<ReadSide> {
    let show = comparing.show.filters();
    let label = match comparing.work() {
        Some(Work::Label(label)) => Some(label),
        _ => None,
    };
    let mut middle = Middle::of(paths.len());
    let mut runs = Vec::new();
    for path in paths {
        let profile = save::read(path, &comparing.read)?;
        let name = path.display().to_string();
        let costs = |profile: &Profile| RunCosts::of(&name, profile, label.as_deref());
        match keeps {
            Keeps::Costs => {
                let shown = shown_by(Cow::Owned(profile), &show, comparing.by)?;
                runs.push(costs(&shown));
            }
            Keeps::CostsAndMiddle => {
                let run = costs(&shown(Cow::Borrowed(&profile), &show)?);
                middle.add(run.weight(), profile);
                runs.push(run);
            }
        }
    }
    Ok(ReadSide {
        runs,
        middle: middle.taken(),
    })
}

enum FileFormat {
    Page,
    Svg,
    Text,
    Markdown,
    Json,
}

impl FileFormat {
    fn is_picture(&self) -> bool {
        matches!(self, Self::Page | Self::Svg)
    }

    fn of(path: &Path) -> anyhow::Result<Self> {
        match path.extension().and_then(OsStr::to_str) {
            Some("html") => Ok(Self::Page),
            Some("svg") => Ok(Self::Svg),
            Some("txt") => Ok(Self::Text),
            Some("md") => Ok(Self::Markdown),
            Some("json") => Ok(Self::Json),
            _ => bail!(Failure::Usage(format!(
                "{}: a comparison is written as .html, .svg, .md, .json or .txt",
                path.display()
            ))),
        }
    }
}

fn print(comparison: &Comparison, format: DiffFormat) {
    let content = match format {
        DiffFormat::Text => as_text(
            comparison,
            Terminal {
                has_color: output::has_color(Stream::Standard),
                width_columns: output::width_if_terminal().unwrap_or(FILE_COLUMNS),
            },
        ),
        DiffFormat::Md => comparison_markdown(comparison).into_bytes(),
        DiffFormat::Json => comparison_json(comparison).into_bytes(),
    };
    output::result(&String::from_utf8_lossy(&content), Stream::Standard);
}

fn as_text(comparison: &Comparison, terminal: Terminal) -> Vec<u8> {
    comparison_text(comparison, terminal).into_bytes()
}

/// The page of both sides. A picture holds one run of each.
fn page(
    [before, after]: &[Profile; 2],
    comparing: &ComparingArgs,
    comparison: &Comparison,
) -> anyhow::Result<Vec<u8>> {
    let show = &comparing.show.filters();
    let base = Base {
        nspy: save::as_base(before.clone(), show)?,
        comparison: Some(comparison.clone()),
    };
    save::page(after.clone(), show, &base)
}

/// The flame graph of both sides, in one picture.
fn picture(
    [before, after]: &[Profile; 2],
    comparing: &ComparingArgs,
    comparison: &Comparison,
) -> anyhow::Result<Vec<u8>> {
    let show = &comparing.show.filters();
    let shown = |profile| shown(Cow::Borrowed(profile), show);
    let pair = ProfilePair::join(&shown(before)?, &shown(after)?);
    let mut picture = Vec::new();
    draw_svg_comparison(comparison, &pair, &mut picture)?;
    Ok(picture)
}

fn check_line(check: nodespy_analysis::SelfCheck) -> String {
    let percent = 100.0 * check.alarms as f64 / check.splits.max(1) as f64;
    let meaning = match percent > 10.0 {
        true => "the machine drifts: take runs in turns, or more of them",
        false => "verdicts on such runs can be believed",
    };
    format!(
        "{} of {} random splits into {} against {} runs found a change: {percent:.1} % false alarms; {meaning}\n",
        check.alarms, check.splits, check.runs, check.runs
    )
}

/// The exit code that the limits ask for.
fn code(comparison: &Comparison, limits: &[FailOn], is_strict: bool) -> u8 {
    let has = |limit: &FailOn, verdict: Verdict| {
        let is_beyond = |change: &nodespy_analysis::Change| {
            change.verdict == verdict && change.ratio >= 1.0 + limit.change
        };
        match limit.is_total {
            true => is_beyond(&comparison.total),
            false => {
                let functions = comparison.functions.iter().map(|function| &function.own);
                let families = comparison.families.iter().map(|family| &family.own);
                functions.chain(families).any(is_beyond)
            }
        }
    };
    if limits.iter().any(|limit| has(limit, Verdict::Regression)) {
        return REGRESSION;
    }
    match is_strict && limits.iter().any(|limit| has(limit, Verdict::LikelySlower)) {
        true => SUSPECTED,
        false => 0,
    }
}
