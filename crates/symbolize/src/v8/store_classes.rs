//! What objects of stores are: a `Map`, one of OpenTelemetry's, or one that has a property that is asked for.

use nodespy_model::{CopiedField, CopyRule, MAX_COPIED_FIELDS, ObjectShape, RuleOf};

use super::properties::Place;

/// What is wanted of the stores of AsyncLocalStorage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// Whether the trace and the span of OpenTelemetry are.
    pub traces: bool,
    /// What properties are called whose values are, at most [`Self::MAX_KEYS`].
    pub keys: Vec<String>,
}

impl StoreOptions {
    /// How many properties can be asked for.
    pub const MAX_KEYS: usize = 4;

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        !self.traces && self.keys.is_empty()
    }

    /// What a property of this name is wanted for.
    pub(super) fn names(&self, name: &str) -> Vec<Name> {
        let position = self.keys.iter().position(|key| key == name);
        let key = position.map(Name::Key);
        let nodes = match name {
            "kResourceStore" => Some(Name::ResourceStore),
            "resource_symbol" => Some(Name::PublicResource),
            _ => None,
        };
        let found = TRACES.iter().find(|(known, _)| *known == name);
        let of_trace = found.filter(|_| self.traces).map(|(_, name)| *name);
        key.into_iter().chain(nodes).chain(of_trace).collect()
    }
}

/// The properties that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Name {
    /// One that was asked for.
    Key(usize),
    /// The store that a promise or another resource keeps, before Node 24.
    ResourceStore,
    /// The resource that one stands for.
    PublicResource,
    /// The `Map` of OpenTelemetry's context.
    CurrentContext,
    /// Of its span.
    SpanContext,
    TraceId,
    SpanId,
}

const TRACES: &[(&str, Name)] = &[
    ("_currentContext", Name::CurrentContext),
    ("_spanContext", Name::SpanContext),
    ("traceId", Name::TraceId),
    ("spanId", Name::SpanId),
];

impl Name {
    fn is_text(self) -> bool {
        matches!(self, Self::Key(_) | Self::TraceId | Self::SpanId)
    }
}

/// The objects of a map.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Class {
    Map,
    /// What has properties that matter.
    Object(Vec<(Name, Place)>),
    Other,
}

impl Class {
    /// What has these properties.
    pub(super) fn of(mut places: Vec<(Name, Place)>) -> Self {
        places.retain(|(_, place)| place.word <= CopiedField::LAST_WORD.into());
        match places.is_empty() {
            true => Self::Other,
            false => Self::Object(places),
        }
    }

    /// Where it has what is called so.
    pub(super) fn places(&self) -> &[(Name, Place)] {
        match self {
            Self::Object(places) => places,
            Self::Map | Self::Other => &[],
        }
    }

    /// What is copied of the objects of this map.
    pub(super) fn rule(&self, map: u64, fingerprint: u64) -> CopyRule {
        let field = |(name, place): &(Name, Place)| CopiedField {
            word: place.word as u8,
            is_in_properties: place.is_in_array,
            is_text: name.is_text(),
        };
        let fields = self.places().iter().map(field);
        CopyRule {
            of: RuleOf::Store,
            key: map,
            fingerprint,
            leads_to_request: false,
            shape: match self {
                Self::Map => ObjectShape::Map,
                Self::Object(_) | Self::Other => ObjectShape::Fields,
            },
            fields: fields.take(MAX_COPIED_FIELDS).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_is_wanted() {
        let keys = vec!["tenant".to_owned(), "traceId".to_owned()];
        let keys_alone = StoreOptions {
            traces: false,
            keys,
        };
        assert_eq!(keys_alone.names("tenant"), [Name::Key(0)]);
        assert_eq!(keys_alone.names("traceId"), [Name::Key(1)]);
        assert!(keys_alone.names("_spanContext").is_empty() && keys_alone.names("").is_empty());
        let both = StoreOptions {
            traces: true,
            ..keys_alone
        };
        assert_eq!(both.names("traceId"), [Name::Key(1), Name::TraceId]);
        assert!(StoreOptions::default().is_empty() && !both.is_empty());
    }

    #[test]
    fn a_field_that_is_too_far_is_not_copied() {
        let word = u64::from(CopiedField::LAST_WORD) + 1;
        let is_in_array = true;
        let class = Class::of(vec![(Name::TraceId, Place { word, is_in_array })]);
        assert_eq!(class, Class::Other);
        assert!(class.rule(8, 9).fields.is_empty());
    }
}
