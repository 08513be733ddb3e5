//! The flags that a Node process was started with.

use super::proc;

/// Options whose value is the next argument, unless they have it after `=`.
const WITH_VALUE: [&str; 10] = [
    "-r",
    "--require",
    "--import",
    "--loader",
    "--experimental-loader",
    "-C",
    "--conditions",
    "--input-type",
    "--title",
    "--stack-trace-limit",
];

/// Whether the argument after this one is its value.
pub(super) fn has_value_next(argument: &str) -> bool {
    WITH_VALUE.contains(&argument)
}

/// The flags of a process: those of `NODE_OPTIONS`, then those of the command line, which take precedence.
pub(crate) fn of_process(pid: u32) -> Vec<String> {
    let environment = proc::read_text(&proc::path_of(pid, "environ"), 1 << 20);
    let options = environment
        .iter()
        .flat_map(|text| text.split('\0'))
        .find_map(|variable| variable.strip_prefix("NODE_OPTIONS="))
        .unwrap_or_default();
    let inherited = options.split_whitespace().map(str::to_owned);
    inherited
        .chain(before_script(&proc::command_line(pid)))
        .collect()
}

/// The flags among the arguments that stand before the script.
pub(crate) fn before_script(command: &[String]) -> Vec<String> {
    let mut arguments = command.iter().skip(1);
    let mut flags = Vec::new();
    while let Some(flag) = arguments.next().filter(|it| it.starts_with('-')) {
        if has_value_next(flag) {
            arguments.next();
        }
        flags.push(flag.clone());
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_end_at_the_script_and_not_at_the_value_of_another() {
        let command = "node -r ./hook.js --inspect=9333 --title shop app.js --inspect";
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        assert_eq!(before_script(&words), ["-r", "--inspect=9333", "--title"]);
        assert!(before_script(&[]).is_empty());
    }
}
