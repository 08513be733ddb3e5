//! The formats nodespy reads and writes, as the help lists them.

use nodespy_formats::IMPORTERS;
use nodespy_outputs::outputs;

/// Every format, and what each leaves out. Made from the lists themselves.
pub(crate) fn help() -> String {
    let read: Vec<&str> = IMPORTERS.iter().map(|importer| importer.name()).collect();
    let mut rows: Vec<(&str, String, String)> = Vec::new();
    for output in outputs() {
        let extensions = output.extensions();
        let extensions: Vec<String> = extensions.iter().map(|end| format!(".{end}")).collect();
        let holds = match output.leaves_out().as_deref() {
            None => "to look at".to_owned(),
            Some([]) => "everything".to_owned(),
            Some(left_out) => format!("no room for {}", left_out.join(", ")),
        };
        rows.push((output.name(), extensions.join(" "), holds));
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
