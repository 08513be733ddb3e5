//! The formats nodespy reads and writes, as the help lists them.

use nodespy_formats::{EXPORTERS, IMPORTERS};
use nodespy_view::VIEWS;

/// Every format, and what each leaves out. Made from the lists themselves.
pub(crate) fn help() -> String {
    let read: Vec<&str> = IMPORTERS.iter().map(|importer| importer.name()).collect();
    let mut rows: Vec<(&str, String, String)> = Vec::new();
    for exporter in EXPORTERS {
        let extensions: Vec<String> = exporter
            .extensions()
            .iter()
            .map(|end| format!(".{end}"))
            .collect();
        let left_out: Vec<&str> = exporter
            .leaves_out()
            .iter()
            .map(|detail| detail.label())
            .collect();
        let holds = match left_out.as_slice() {
            [] => "everything".to_owned(),
            left_out => format!("no room for {}", left_out.join(", ")),
        };
        rows.push((exporter.name(), extensions.join(" "), holds));
    }
    for view in VIEWS {
        rows.push((
            view.name(),
            format!(".{}", view.extension()),
            "to look at".to_owned(),
        ));
    }
    let width = |of: fn(&(&str, String, String)) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let name_width = width(|row| row.0.len());
    let extension_width = width(|row| row.1.len());
    let mut text = format!(
        "Reads, whatever the file is called:\n  {}\n\nWrites:\n",
        read.join(", ")
    );
    for (name, extensions, holds) in &rows {
        text.push_str(&format!(
            "  {name:name_width$}  {extensions:extension_width$}  {holds}\n"
        ));
    }
    text
}
