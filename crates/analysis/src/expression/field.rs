//! What conditions can ask for and rows can be grouped by.

/// A field of a frame or of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// The function of the frame.
    Function,
    /// The function that called it.
    Caller,
    /// The line that runs.
    Line,
    /// The file, or the module of native code.
    File,
    /// The package, library or part of Node that the function belongs to.
    Package,
    /// What part of a running Node it is, as in the summary.
    Subsystem,
    /// The category of the function.
    Category,
    /// Which of V8's compilers made the code.
    Tier,
    /// The thread of the sample.
    Thread,
    /// The process of the sample.
    Process,
    /// A label of the sample or of its process.
    Label(String),
    /// All labels of the sample.
    Context,
    /// When the sample was taken.
    Time,
    /// The share that a row has of the whole.
    Share,
}

/// How the field of a label begins.
const LABEL: &str = "label.";

impl Field {
    /// The fields without labels, in the order messages list them.
    const NAMED: [(&'static str, Self); 13] = [
        ("function", Self::Function),
        ("caller", Self::Caller),
        ("line", Self::Line),
        ("file", Self::File),
        ("package", Self::Package),
        ("subsystem", Self::Subsystem),
        ("category", Self::Category),
        ("tier", Self::Tier),
        ("thread", Self::Thread),
        ("process", Self::Process),
        ("context", Self::Context),
        ("time", Self::Time),
        ("share", Self::Share),
    ];

    /// The field called `name`.
    pub(crate) fn called(name: &str) -> Option<Self> {
        if let Some(key) = name.strip_prefix(LABEL) {
            return (!key.is_empty()).then(|| Self::Label(key.to_owned()));
        }
        let found = Self::NAMED.iter().find(|(each, _)| *each == name);
        found.map(|(_, field)| field.clone())
    }

    /// Its name.
    pub fn name(&self) -> String {
        match self {
            Self::Label(key) => format!("{LABEL}{key}"),
            field => {
                let found = Self::NAMED.iter().find(|(_, each)| each == field);
                found.map_or("", |(name, _)| name).to_owned()
            }
        }
    }

    /// Whether rows can be grouped by it.
    pub(crate) fn is_group(&self) -> bool {
        !matches!(self, Self::Time | Self::Share)
    }

    /// Whether a condition can ask for it.
    pub(crate) fn is_test(&self) -> bool {
        *self != Self::Context
    }

    /// The names of the fields that `is_meant` accepts, for messages.
    pub(crate) fn list(is_meant: impl Fn(&Self) -> bool) -> String {
        let meant = Self::NAMED.iter().filter(|(_, field)| is_meant(field));
        let mut names: Vec<&str> = meant.map(|(name, _)| *name).collect();
        names.push("label.KEY");
        names.join(", ")
    }

    /// The field whose name is nearest to a word that is none: the one that shares most of its start.
    pub(crate) fn nearest(word: &str) -> Option<&'static str> {
        let common = |name: &str| {
            let pairs = name.chars().zip(word.chars());
            pairs.take_while(|(one, other)| one == other).count()
        };
        let names = Self::NAMED.iter().map(|(name, _)| *name);
        let best = names.max_by_key(|name| common(name))?;
        (common(best) >= 2).then_some(best)
    }
}
