//! The contexts of a profile as JSON, for formats that have room for what only nodespy reads: an
//! object for each set of labels but the empty one.

use nodespy_model::{ContextIndex, Contexts, Labels, ProfileBuilder};

use crate::json::{JsonError, Kind, Reader, Writer};

/// Writes the array.
pub(crate) fn write(contexts: &Contexts, json: &mut Writer<'_>) {
    json.begin_array();
    for labels in contexts.iter() {
        json.begin_object();
        for (key, value) in labels.iter() {
            json.string_field(key, value);
        }
        json.end_object();
    }
    json.end_array();
}

/// Reads the array.
pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Vec<Labels>, JsonError> {
    let mut sets = Vec::new();
    reader.enter_array()?;
    while reader.element()? {
        let mut labels = Labels::default();
        if reader.kind()? != Kind::Object {
            reader.skip()?;
            continue;
        }
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            let value = reader.any_text()?;
            labels.set(&key, value);
        }
        sets.push(labels);
    }
    Ok(sets)
}

/// Reads the contexts of samples, each a number.
pub(crate) fn read_numbers(reader: &mut Reader<'_>) -> Result<Vec<u32>, JsonError> {
    let mut numbers = Vec::new();
    reader.enter_array()?;
    while reader.element()? {
        let number = reader.any_number()?.map_or(0, |number| number.as_i64());
        numbers.push(u32::try_from(number).unwrap_or(0));
    }
    Ok(numbers)
}

/// Where sets are in a profile that is being built, the empty one first.
pub(crate) fn places(sets: Vec<Labels>, builder: &mut ProfileBuilder) -> Vec<ContextIndex> {
    let sets = sets.into_iter().map(|labels| builder.context(labels));
    std::iter::once(ContextIndex::NONE).chain(sets).collect()
}
