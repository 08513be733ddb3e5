//! What is around the boxes: background, style, headings and the script.

use super::super::ink::Ink;
use super::super::options::{Background, Cut};
use super::super::palette::Palette;
use super::{Frame, INDENT, Picture, SIDE, Scale};

const SCRIPT: &str = include_str!("../../../assets/flamegraph.js");

/// What fills boxes that are gone.
const GONE_HATCH: &str = concat!(
    "<pattern id=\"gone\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" ",
    "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"rgb(240,244,255)\"/>",
    "<rect width=\"2\" height=\"6\" fill=\"rgb(150,170,235)\"/></pattern>",
);

impl Picture<'_> {
    /// Everything before the boxes.
    pub(super) fn start(&self, ink: &mut Ink, scale: &Scale) {
        let options = self.options;
        let frame = &scale.frame;
        ink.raw("<?xml version=\"1.0\" encoding=\"")
            .text(&options.encoding);
        ink.raw("\" standalone=\"no\"?>\n");
        ink.raw("<svg version=\"1.1\" width=\"").number(frame.width);
        ink.raw("\" height=\"").number(frame.height);
        ink.raw("\" viewBox=\"0 0 ")
            .number(frame.width)
            .raw(" ")
            .number(frame.height);
        ink.raw("\" xmlns=\"http://www.w3.org/2000/svg\"");
        ink.raw(" xmlns:xlink=\"http://www.w3.org/1999/xlink\"");
        ink.raw(" xmlns:fg=\"http://github.com/jonhoo/inferno\">\n");
        ink.raw("<!-- Flame graph drawn by nodespy -->\n");
        if !options.notes.is_empty() {
            // Two dashes would end the comment early.
            let mut notes = options.notes.clone();
            while notes.contains("--") {
                notes = notes.replace("--", "- -");
            }
            ink.raw("<!-- NOTES: ").text(&notes).raw(" -->\n");
        }
        self.background(ink);
        self.style(ink);
        ink.raw("<rect id=\"background\" width=\"100%\" height=\"100%\" fill=\"url(#behind)\"/>\n");
        self.headings(ink, frame);
        ink.raw("<svg id=\"frames\" x=\"").number(SIDE);
        ink.raw("\" width=\"").number(frame.inner_width);
        ink.raw("\" total_samples=\"")
            .whole(scale.whole as u64)
            .raw("\">\n");
    }

    fn background(&self, ink: &mut Ink) {
        let options = self.options;
        let background = options.background.unwrap_or_else(|| {
            if self.is_difference {
                Background::of(Palette::Hot)
            } else {
                Background::of(options.palette)
            }
        });
        let (top, bottom) = background.ends();
        ink.raw("<defs><linearGradient id=\"behind\" y1=\"0\" y2=\"1\" x1=\"0\" x2=\"0\">");
        ink.raw("<stop stop-color=\"")
            .color(top)
            .raw("\" offset=\"5%\"/>");
        ink.raw("<stop stop-color=\"")
            .color(bottom)
            .raw("\" offset=\"95%\"/>");
        ink.raw("</linearGradient>");
        if self.marks.is_some() {
            ink.raw(GONE_HATCH);
        }
        ink.raw("</defs>\n");
    }

    fn style(&self, ink: &mut Ink) {
        let options = self.options;
        ink.raw("<style type=\"text/css\">\ntext { font-family: ");
        // A family is a string of CSS inside of XML.
        let family = options.font_type.replace(['\\', '"', '\n'], "");
        ink.raw("\"").raw(&escaped_in_style(&family)).raw("\"");
        if family != "monospace" {
            ink.raw(", sans-serif");
        } else {
            ink.raw(", monospace");
        }
        ink.raw("; font-size: ").number(options.font_size);
        ink.raw("px; fill: ").color(options.ui_color);
        ink.raw("; }\n#frames text { fill: black; pointer-events: none; }\n");
        ink.raw("#frames g:hover rect { stroke: black; stroke-width: 0.5; cursor: pointer; }\n");
        if let Some(stroke) = options.stroke_color {
            ink.raw("#frames rect { stroke: ")
                .color(stroke)
                .raw("; stroke-width: 0.5; }\n");
        }
        ink.raw("#title { text-anchor: middle; font-size: ")
            .number(options.font_size + 5.0);
        ink.raw("px; }\n#subtitle { text-anchor: middle; fill: rgb(110,110,110); }\n");
        ink.raw("#search, #matched, #ignorecase { text-anchor: end; }\n");
        ink.raw("#unzoom, #search, #ignorecase { cursor: pointer; }\n");
        ink.raw("#search, #ignorecase { opacity: 0.4; }\n");
        ink.raw("#search:hover, #search.on, #ignorecase:hover, #ignorecase.on { opacity: 1; }\n");
        ink.raw(".hide { display: none; }\n.below { opacity: 0.5; }\n</style>\n");
    }

    fn headings(&self, ink: &mut Ink, frame: &Frame) {
        let options = self.options;
        let first = options.font_size * 2.0;
        let mut line = |id: &str, x: f64, y: f64, text: &str| {
            ink.raw("<text id=\"").raw(id).raw("\" x=\"").number(x);
            ink.raw("\" y=\"")
                .number(y)
                .raw("\">")
                .text(text)
                .raw("</text>\n");
        };
        line("title", frame.width / 2.0, first, &options.title);
        if !options.subtitle.is_empty() {
            line(
                "subtitle",
                frame.width / 2.0,
                first * 2.0,
                &options.subtitle,
            );
        }
        line("details", SIDE, frame.details, " ");
        if options.has_script {
            let right = frame.width - SIDE;
            line("unzoom\" class=\"hide", SIDE, first, "Reset Zoom");
            line("search", right - 28.0, first, "Search");
            line("ignorecase", right, first, "ic");
            line("matched", right, frame.details, " ");
        }
    }

    /// Everything after them.
    pub(super) fn end(&self, ink: &mut Ink) {
        ink.raw("</svg>\n");
        if self.options.has_script {
            self.script(ink);
        }
        ink.raw("</svg>\n");
    }

    fn script(&self, ink: &mut Ink) {
        let options = self.options;
        ink.raw("<script type=\"text/ecmascript\"><![CDATA[\n");
        ink.raw("(() => {\n\"use strict\";\nconst settings = { nameType: ");
        ink.raw(&as_script_text(&options.name_type));
        ink.raw(", searchColor: \"").color(options.search_color);
        ink.raw("\", letterWidth: ")
            .number(options.font_size * options.font_width);
        ink.raw(", baseline: ").number(self.baseline());
        ink.raw(", side: ").number(SIDE);
        ink.raw(", indent: ").number(INDENT);
        let flags = [
            (", isInverted: ", options.is_inverted),
            (", isFluid: ", options.width.is_none()),
            (", cutsLeft: ", options.cut == Cut::Left),
        ];
        for (name, is_on) in flags {
            ink.raw(name).raw(if is_on { "true" } else { "false" });
        }
        ink.raw(" };\n").raw(SCRIPT).raw("})();\n]]></script>\n");
    }
}

/// Text as a string of a script in a CDATA section.
fn as_script_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            ' '..='~' if !matches!(character, '"' | '\\' | '<' | '>' | '&') => {
                quoted.push(character);
            }
            other => {
                let mut units = [0; 2];
                for unit in other.encode_utf16(&mut units) {
                    quoted.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    quoted.push('"');
    quoted
}

/// The name of a font as a string of a style sheet inside of XML.
fn escaped_in_style(family: &str) -> String {
    let is_kept = |each: &char| each.is_alphanumeric() || " -_.,".contains(*each);
    family.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_the_same_in_every_encoding_and_stays_in_its_section() {
        assert!(SCRIPT.is_ascii());
        assert!(!SCRIPT.contains("]]>"));
    }

    #[test]
    fn settings_cannot_leave_the_script() {
        assert_eq!(
            as_script_text("a\"]]></script>é😀\\"),
            "\"a\\u0022]]\\u003e\\u003c/script\\u003e\\u00e9\\ud83d\\ude00\\u005c\""
        );
        assert_eq!(escaped_in_style("Evil\"; } <x>"), "Evil  x");
    }
}
