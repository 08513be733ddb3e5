//! Attributes that boxes of some functions get, as FlameGraph's `--nameattr` file gives them.

use nodespy_model::FastMap;

/// Attributes by name: lines of `name`, a tab, and `attribute=value` parted by tabs.
#[derive(Debug, Clone, Default)]
pub struct NameAttributes {
    by_name: FastMap<String, Vec<(String, String)>>,
}

impl NameAttributes {
    /// Reads lines. Attributes without a sensible name are left out.
    pub fn parse(text: &str) -> Self {
        let mut by_name = FastMap::default();
        for line in text.lines() {
            let Some((name, rest)) = line.split_once('\t') else {
                continue;
            };
            let pair = |field: &str| {
                let (attribute, value) = field.split_once('=')?;
                let attribute = attribute.trim();
                is_attribute(attribute).then(|| {
                    let value = value.trim().trim_matches('"');
                    (attribute.to_owned(), value.to_owned())
                })
            };
            by_name.insert(
                name.trim().to_owned(),
                rest.split('\t').filter_map(pair).collect(),
            );
        }
        Self { by_name }
    }

    /// Whether there are none at all.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// What the boxes of a function get.
    pub(super) fn of(&self, name: &str) -> Option<BoxAttributes<'_>> {
        let pairs = self.by_name.get(name)?;
        let mut found = BoxAttributes::default();
        for (attribute, value) in pairs {
            let pair = (attribute.as_str(), value.as_str());
            match attribute.as_str() {
                "title" => found.title = Some(value),
                "href" => found.link.push(("xlink:href", value)),
                "target" => found.link.push(pair),
                "a_style" => found.link.push(("style", value)),
                "g_style" => found.group.push(("style", value)),
                _ => match attribute
                    .strip_prefix("a_")
                    .or(attribute.strip_prefix("a:"))
                {
                    Some(name) => found.link.push((name, value)),
                    None => found.group.push(pair),
                },
            }
        }
        Some(found)
    }
}

/// What one box gets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BoxAttributes<'a> {
    /// The tooltip instead of the usual one.
    pub(super) title: Option<&'a str>,
    /// Attributes of its group.
    pub(super) group: Vec<(&'a str, &'a str)>,
    /// Attributes of a link around it.
    pub(super) link: Vec<(&'a str, &'a str)>,
}

impl BoxAttributes<'_> {
    /// Whether there is somewhere to go.
    pub(super) fn has_link(&self) -> bool {
        self.link.iter().any(|(name, _)| *name == "xlink:href")
    }
}

/// Whether a text can be the name of an XML attribute.
fn is_attribute(name: &str) -> bool {
    let mut bytes = name.bytes();
    let is_start = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    bytes.next().is_some_and(is_start)
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_-:.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_go_to_the_group_or_to_a_link() {
        let text =
            "main\thref=https://x/?a=b\tclass=hot\ttitle=Start\t bad name=1\ta_rel=next\nno tab\n";
        let attributes = NameAttributes::parse(text);
        let found = attributes.of("main").unwrap();
        assert_eq!(found.title, Some("Start"));
        assert_eq!(found.group, [("class", "hot")]);
        assert_eq!(
            found.link,
            [("xlink:href", "https://x/?a=b"), ("rel", "next")]
        );
        assert!(found.has_link());
        assert_eq!(attributes.of("other"), None);
    }
}
