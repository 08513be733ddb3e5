//! Colours that names keep from one picture to the next, as FlameGraph's `palette.map` has them.

use std::collections::BTreeMap;

use super::palette::Rgb;

/// The colours of names: lines of `name->rgb(r,g,b)`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PaletteMap {
    colors: BTreeMap<String, Rgb>,
}

impl PaletteMap {
    /// Reads lines; those that are something else are left out.
    pub fn parse(text: &str) -> Self {
        let entry = |line: &str| {
            let (name, color) = line.trim_end().rsplit_once("->")?;
            Some((name.to_owned(), color.parse().ok()?))
        };
        Self {
            colors: text.lines().filter_map(entry).collect(),
        }
    }

    /// The lines.
    pub fn to_text(&self) -> String {
        let entries = self.colors.iter();
        entries
            .map(|(name, color)| format!("{name}->{color}\n"))
            .collect()
    }

    /// The colour that a name has, or gets now.
    pub(super) fn color(&mut self, name: &str, make: impl FnOnce() -> Rgb) -> Rgb {
        match self.colors.get(name) {
            Some(color) => *color,
            None => {
                let color = make();
                self.colors.insert(name.to_owned(), color);
                color
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_kept() {
        let mut map = PaletteMap::parse("a->b->rgb(1,2,3)\r\nnonsense\nx->green\n");
        assert_eq!(map.color("a->b", || Rgb(9, 9, 9)), Rgb(1, 2, 3));
        assert_eq!(map.color("new", || Rgb(4, 5, 6)), Rgb(4, 5, 6));
        assert_eq!(map.to_text(), "a->b->rgb(1,2,3)\nnew->rgb(4,5,6)\n");
        assert_eq!(PaletteMap::parse(&map.to_text()), map);
    }
}
