//! What a profile says about itself.

use std::borrow::Cow;

use nodespy_model::{Category, Tier};

use crate::json::{JsonError, Kind, Number, Reader};

/// A category of the file, with the tiers that its subcategories stand for.
#[derive(Debug, Default)]
pub(super) struct CategoryText {
    /// The category of ours, where its name says it.
    pub(super) category: Option<Category>,
    pub(super) tiers: Vec<Tier>,
}

/// The `meta` of a file.
#[derive(Debug, Default)]
pub(super) struct Meta<'a> {
    pub(super) product: Cow<'a, str>,
    pub(super) imported_from: Cow<'a, str>,
    pub(super) interval_ms: f64,
    pub(super) start_ms: f64,
    pub(super) categories: Vec<CategoryText>,
    /// What our exporter says, as lines.
    pub(super) recorded: Vec<String>,
    is_processed: bool,
    has_version: bool,
}

impl<'a> Meta<'a> {
    /// Whether Firefox wrote the file and its profiler page has not seen it.
    pub(super) fn is_raw(&self) -> bool {
        self.has_version && !self.is_processed
    }

    pub(super) fn read(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        let number = |reader: &mut Reader<'a>| -> Result<f64, JsonError> {
            Ok(match reader.any_number()? {
                Some(Number::Whole(value)) => value as f64,
                Some(Number::Fraction(value)) => value,
                None => 0.0,
            })
        };
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            match (&*key, reader.kind()?) {
                ("preprocessedProfileVersion", _) => {
                    self.is_processed = true;
                    reader.skip()?;
                }
                ("version", _) => {
                    self.has_version = true;
                    reader.skip()?;
                }
                ("product", _) => self.product = reader.any_text()?,
                ("importedFrom", _) => self.imported_from = reader.any_text()?,
                ("interval", _) => self.interval_ms = number(reader)?,
                ("startTime", _) => self.start_ms = number(reader)?,
                ("categories", Kind::Array) => {
                    reader.enter_array()?;
                    while reader.element()? {
                        self.categories.push(CategoryText::read(reader)?);
                    }
                }
                ("extra", Kind::Array) => self.read_extra(reader)?,
                _ => reader.skip()?,
            }
        }
        Ok(())
    }

    fn read_extra(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        reader.enter_array()?;
        while reader.element()? {
            reader.enter_object()?;
            let mut is_ours = false;
            while let Some(key) = reader.key()? {
                match (&*key, reader.kind()?) {
                    ("label", _) => is_ours = reader.any_text()? == "nodespy",
                    ("entries", Kind::Array) if is_ours => self.read_entries(reader)?,
                    _ => reader.skip()?,
                }
            }
        }
        Ok(())
    }

    fn read_entries(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        reader.enter_array()?;
        while reader.element()? {
            let mut label = Cow::default();
            let mut value = Cow::default();
            reader.enter_object()?;
            while let Some(key) = reader.key()? {
                match &*key {
                    "label" => label = reader.any_text()?,
                    "value" => value = reader.any_text()?,
                    _ => reader.skip()?,
                }
            }
            self.recorded.push(match value.is_empty() {
                true => label.into_owned(),
                false => format!("{label}: {value}"),
            });
        }
        Ok(())
    }
}

impl CategoryText {
    fn read(reader: &mut Reader<'_>) -> Result<Self, JsonError> {
        let mut found = Self::default();
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            match (&*key, reader.kind()?) {
                ("name", _) => found.category = category_called(&reader.any_text()?),
                ("subcategories", Kind::Array) => {
                    reader.enter_array()?;
                    while reader.element()? {
                        found.tiers.push(tier_called(&reader.any_text()?));
                    }
                }
                _ => reader.skip()?,
            }
        }
        Ok(found)
    }
}

/// The category that a name of nodespy, Firefox or samply stands for, where it says more than
/// the function's own name.
fn category_called(name: &str) -> Option<Category> {
    match name {
        "GC / CC" => Some(Category::Gc),
        "Kernel" => Some(Category::Kernel),
        "Idle" => Some(Category::Idle),
        name => Category::ALL.into_iter().find(|it| it.label() == name),
    }
}

/// The tier that a subcategory or an implementation of a frame stands for.
pub(super) fn tier_called(name: &str) -> Tier {
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&["interp"]) {
        Tier::Interpreted
    } else if has(&["baseline", "sparkplug"]) {
        Tier::Baseline
    } else if has(&["maglev"]) {
        Tier::Maglev
    } else if has(&["ion)", "ionmonkey", "turbofan", "optimized", "dfg", "ftl"]) || name == "ion" {
        Tier::Optimized
    } else {
        Tier::None
    }
}
