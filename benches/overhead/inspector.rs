//! What the inspector engine costs the watched program, against what V8 costs when it profiles the
//! program from its start (`--cpu-prof`) at the same interval.
//!
//! Three processes do the same items: one that is watched in turn by nothing and by nodespy, one that
//! was started with `--cpu-prof`, and one like the first that is not profiled, which shows how much
//! two processes differ by themselves.

use crate::Failure;
use crate::options::Options;
use crate::profiler::{Attached, Condition};
use crate::statistics::Spread;
use crate::target::Target;

/// The interval of both, in microseconds.
const INTERVAL_US: u32 = 1000;

/// Measures in alternating rounds and prints the ratios to the unwatched process.
pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    let mut watched = Target::start(options)?;
    let mut other = Target::start(options)?;
    let folder = std::env::temp_dir();
    let mut own = Target::start_with(
        options,
        &[
            "--cpu-prof".to_owned(),
            format!("--cpu-prof-interval={INTERVAL_US}"),
            format!("--cpu-prof-dir={}", folder.display()),
            "--cpu-prof-name=nodespy-overhead-own.cpuprofile".to_owned(),
        ],
    )?;
    let (mut inspector, mut cpu_prof, mut placebo) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let without = watched.work(options.items)?;
        let attached = Attached::start(options, Condition::Inspector, watched.pid, 1000)?;
        let with = watched.work(options.items)?;
        if let Some(attached) = attached {
            let mark = attached.mark();
            attached.finish(mark)?;
        }
        inspector.push(with / without);
        cpu_prof.push(own.work(options.items)? / without);
        placebo.push(other.work(options.items)? / without);
    }
    println!(
        "CPU time of the same work, all threads, to that of the unwatched process; median (range)"
    );
    let inspector = Spread::of(inspector);
    let cpu_prof = Spread::of(cpu_prof);
    println!(
        "  another process, unwatched         {}",
        Spread::of(placebo)
    );
    println!("  nodespy --engine inspector, 1 ms   {inspector}");
    println!("  node --cpu-prof, 1 ms              {cpu_prof}");
    println!(
        "  inspector to --cpu-prof: {:.3}   (goal: at most 1, give or take the noise)",
        inspector.median / cpu_prof.median
    );
    Ok(())
}
