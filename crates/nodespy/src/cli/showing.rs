//! What of a profile is shown.

use clap::Args;
use nodespy_analysis::{CodeKind, Condition, Filters, LabelFilter, Pattern, Share, TimeRange};

/// What of a profile is shown, the same for every command that shows or converts one. The order
/// in which they are applied is that of `nodespy_analysis::Filters`.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Showing")]
pub(crate) struct ShowArgs {
    /// Keep samples with a matching function; if repeated, with a match for each. RE is matched
    /// against `name file:line:column` and its parts
    #[arg(long, value_name = "RE", value_parser = Pattern::parse)]
    pub(crate) focus: Vec<Pattern>,
    /// Drop samples with a matching function
    #[arg(long, value_name = "RE", value_parser = Pattern::parse)]
    pub(crate) ignore: Vec<Pattern>,
    /// Keep samples that match a condition, e.g. 'package = lodash and thread = main'; fields of
    /// a frame are those of the leaf (listed by `nodespy query --help`)
    #[arg(long = "where", value_name = "CONDITION", value_parser = parse_condition)]
    pub(crate) conditions: Vec<Condition>,
    /// Drop matching frames; their time goes to their callers
    #[arg(long, value_name = "RE", value_parser = Pattern::parse)]
    pub(crate) hide: Vec<Pattern>,
    /// Start stacks at the first match from the root; drop samples without a match
    #[arg(long, value_name = "RE", value_parser = Pattern::parse)]
    pub(crate) show_from: Vec<Pattern>,
    /// Keep only frames of a kind, with the time of their callees; drop samples without any
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Only>,
    /// Only this thread: its name, its tid, or main, worker, pool, platform; may be repeated
    #[arg(long, value_name = "THREAD")]
    pub(crate) thread: Vec<String>,
    /// Only this time range: 3s..10s, 500ms.., ..2m, 25%..75%
    #[arg(long, value_name = "RANGE", value_parser = TimeRange::parse)]
    pub(crate) time: Option<TimeRange>,
    /// Keep samples of requests whose route matches, e.g. 'GET /users', '^POST' or '(no request)'; repeat
    /// for any of several
    #[arg(long, value_name = "RE", value_parser = Pattern::parse)]
    pub(crate) route: Vec<Pattern>,
    /// Fold consecutive frames of a package into one: deps (each dependency by name), node, v8, or
    /// a package's name; may be repeated
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',')]
    pub(crate) fold: Vec<String>,
    /// Show direct recursion as one frame
    #[arg(long)]
    pub(crate) collapse_recursion: bool,
    /// Drop idle samples
    #[arg(long)]
    pub(crate) no_idle: bool,
    /// Drop call paths below this share of the total, e.g. 0.5%; their weight goes to the caller
    #[arg(long, value_name = "SHARE", value_parser = Share::parse)]
    pub(crate) min_share: Option<Share>,
    /// Merge a function's compiler tiers (the default)
    #[arg(long, overrides_with = "no_merge_tiers")]
    pub(crate) merge_tiers: bool,
    /// Show a function's interpreted ~, baseline ^, Maglev + and optimized * code separately
    #[arg(long, overrides_with = "merge_tiers")]
    pub(crate) no_merge_tiers: bool,
    /// Only processes with this label, e.g. container=web, pm2=api, worker=2, node=v20.20.2; may be
    /// repeated: values of one key are alternatives, different keys must all match
    #[arg(long, value_name = "KEY=VALUE", value_parser = LabelFilter::parse)]
    pub(crate) label: Vec<LabelFilter>,
    /// Merge all processes
    #[arg(long)]
    pub(crate) merge: bool,
    /// Leave out the host name, command lines, source text, the words of HTTP routes and paths outside the application
    #[arg(long)]
    pub(crate) redact: bool,
    /// Also show V8's stubs, bytecode handlers and libc's startup code
    #[arg(long)]
    pub(crate) raw: bool,
}

impl ShowArgs {
    /// The filters that were asked for.
    pub(crate) fn filters(&self) -> Filters {
        Filters {
            focus: self.focus.clone(),
            ignore: self.ignore.clone(),
            conditions: self.conditions.clone(),
            hide: self.hide.clone(),
            show_from: self.show_from.clone(),
            only: self.only.iter().map(|only| only.kind()).collect(),
            thread: self.thread.clone(),
            time: self.time.clone(),
            route: self.route.clone(),
            fold: self.fold.clone(),
            collapse_recursion: self.collapse_recursion,
            no_idle: self.no_idle,
            min_share: self.min_share,
            no_merge_tiers: self.no_merge_tiers,
            label: self.label.clone(),
            merge: self.merge,
            redact: self.redact,
            raw: self.raw,
            pid: Vec::new(),
        }
    }

    /// The same for some processes only, unless none is given: `--pid` is no argument of this group,
    /// as it names the target of `record`.
    pub(crate) fn filters_of_processes(&self, pid: &[u32]) -> Filters {
        Filters {
            pid: pid.to_vec(),
            ..self.filters()
        }
    }
}

fn parse_condition(text: &str) -> Result<Condition, String> {
    Condition::parse(text).map_err(|error| format!("{error}\n{}", error.marked(text)))
}

/// A kind of code to look at alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Only {
    Js,
    Native,
    Kernel,
    App,
}

impl Only {
    fn kind(self) -> CodeKind {
        match self {
            Self::Js => CodeKind::JavaScript,
            Self::Native => CodeKind::Native,
            Self::Kernel => CodeKind::Kernel,
            Self::App => CodeKind::App,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        show: ShowArgs,
    }

    fn filters_of(line: &str) -> Filters {
        let words = std::iter::once("nodespy").chain(line.split(' '));
        Line::try_parse_from(words).unwrap().show.filters()
    }

    #[test]
    fn tiers_are_merged_by_the_last_word() {
        assert!(!filters_of("--no-merge-tiers --merge-tiers").no_merge_tiers);
        assert!(filters_of("--merge-tiers --no-merge-tiers").no_merge_tiers);
    }

    #[test]
    fn every_filter_arrives() {
        let line = "--redact --merge --label container=web --min-share 1% --focus a --no-merge-tiers \
            --hide e --fold deps --no-idle --only js --collapse-recursion --show-from d --ignore c \
            --time 1s..2s --route POST --thread main --raw --where line=3";
        let filters = filters_of(&line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert!(filters.redact && filters.merge && filters.no_idle && filters.raw);
        assert!(filters.collapse_recursion && filters.no_merge_tiers);
        assert_eq!(filters.label[0].to_string(), "container=web");
        assert_eq!(filters.min_share.unwrap().to_string(), "1%");
        assert_eq!(filters.time.unwrap().to_string(), "1s..2s");
        assert_eq!(
            (filters.only, filters.fold),
            (vec![CodeKind::JavaScript], vec!["deps".to_owned()])
        );
        assert_eq!(filters.thread, ["main"]);
        assert_eq!(filters.conditions[0].to_string(), "line=3");
        let patterns = [
            filters.route,
            filters.focus,
            filters.hide,
            filters.show_from,
            filters.ignore,
        ]
        .concat();
        let patterns: Vec<String> = patterns.iter().map(Pattern::to_string).collect();
        assert_eq!(patterns, ["POST", "a", "e", "d", "c"]);
    }
}
