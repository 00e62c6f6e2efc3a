//! The few commands that a simulated container has.

use serde_json::Value;

/// The most that a command reads.
pub(crate) const INPUT_LIMIT: usize = 1024 * 1024;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where a command runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Container {
    pub hostname: String,
    pub environment: Vec<(String, String)>,
}

/// What a command has printed, and how it has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub code: u8,
}

impl Container {
    /// A container of a pod as its spec describes it; variables that come from elsewhere are left out.
    pub fn new(pod: &str, container: &Value) -> Self {
        let mut environment = vec![("PATH".into(), PATH.into()), ("HOSTNAME".into(), pod.into())];
        for variable in container["env"].as_array().into_iter().flatten() {
            if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
                environment.push((name.into(), value.into()));
            }
        }
        environment.push(("HOME".into(), "/root".into()));
        Container { hostname: pod.into(), environment }
    }
}

/// Whether a command has to wait for its input.
pub(crate) fn reads_input(command: &[String]) -> bool {
    matches!(command, [name] if name == "cat") || matches!(command, [name, dash] if name == "cat" && dash == "-")
}

pub(crate) fn run(container: &Container, command: &[String], input: &[u8]) -> Outcome {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let [name, args @ ..] = words.as_slice() else { return failed("sh: nothing to run", 127) };
    // Shells and commands are the same by their whole path.
    let name = name.rsplit('/').next().unwrap_or(name);
    match (name, args) {
        ("true" | ":", _) => Outcome::default(),
        ("false", _) => Outcome { code: 1, ..Outcome::default() },
        ("echo", ["-n", words @ ..]) => printed(&words.join(" ")),
        ("echo", words) => printed(&format!("{}\n", words.join(" "))),
        ("cat", [] | ["-"]) => Outcome { stdout: input.to_vec(), ..Outcome::default() },
        ("cat", ["/etc/hostname"]) | ("hostname", []) => printed(&format!("{}\n", container.hostname)),
        ("cat", [file, ..]) => failed(&format!("cat: {file}: No such file or directory"), 1),
        ("env" | "printenv", []) => {
            let lines = container.environment.iter().map(|(name, value)| format!("{name}={value}\n"));
            printed(&lines.collect::<String>())
        }
        ("printenv", [wanted, ..]) => match container.environment.iter().find(|(name, _)| name == wanted) {
            Some((_, value)) => printed(&format!("{value}\n")),
            None => Outcome { code: 1, ..Outcome::default() },
        },
        ("pwd", []) => printed("/\n"),
        ("whoami", []) => printed("root\n"),
        ("exit", []) => Outcome::default(),
        ("exit", [code, ..]) => Outcome { code: code.parse().unwrap_or(2), ..Outcome::default() },
        ("sh" | "bash" | "ash", ["-c", script, ..]) => script_of(container, script, input),
        ("sh" | "bash" | "ash", []) => script_of(container, &String::from_utf8_lossy(input), &[]),
        (unknown, _) => failed(&format!("sh: {unknown}: not found"), 127),
    }
}

/// Runs the commands of a script one after the other: `;` and a new line go on, `&&` only after success, `||` only after
/// failure.
fn script_of(container: &Container, script: &str, input: &[u8]) -> Outcome {
    let mut all = Outcome::default();
    for line in script.split(['\n', ';']).filter(|line| !line.trim().is_empty()) {
        for (place, part) in line.split("&&").enumerate() {
            for (alternative, command) in part.split("||").enumerate() {
                let runs = match (place, alternative) {
                    (0, 0) => true,
                    (_, 0) => all.code == 0,
                    _ => all.code != 0,
                };
                if !runs {
                    continue;
                }
                let words: Vec<String> =
                    command.split_whitespace().map(|word| word.trim_matches(['"', '\'']).into()).collect();
                let outcome = run(container, &words, input);
                all.stdout.extend(outcome.stdout);
                all.stderr.extend(outcome.stderr);
                all.code = outcome.code;
                if words.first().is_some_and(|word| word == "exit") {
                    return all;
                }
            }
        }
    }
    all
}

fn printed(text: &str) -> Outcome {
    Outcome { stdout: text.into(), ..Outcome::default() }
}

fn failed(why: &str, code: u8) -> Outcome {
    Outcome { stderr: format!("{why}\n").into(), code, ..Outcome::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container() -> Container {
        Container::new("web-0", &json!({ "env": [{ "name": "COLOUR", "value": "red" }] }))
    }

    fn ran(command: &[&str]) -> (String, String, u8) {
        let command: Vec<String> = command.iter().map(|word| word.to_string()).collect();
        let Outcome { stdout, stderr, code } = run(&container(), &command, b"typed\n");
        (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), code)
    }

    #[test]
    fn simple_commands_do_what_they_do_everywhere() {
        assert_eq!(ran(&["true"]), (String::new(), String::new(), 0));
        assert_eq!(ran(&["false"]).2, 1);
        assert_eq!(ran(&["echo", "a", "b"]).0, "a b\n");
        assert_eq!(ran(&["cat"]).0, "typed\n");
        assert_eq!(ran(&["hostname"]).0, "web-0\n");
        assert!(ran(&["env"]).0.contains("COLOUR=red\n"));
        assert_eq!(ran(&["printenv", "COLOUR"]).0, "red\n");
    }

    #[test]
    fn a_script_ends_with_the_code_of_its_last_command() {
        assert_eq!(ran(&["sh", "-c", "echo a; exit 3"]), ("a\n".into(), String::new(), 3));
        assert_eq!(ran(&["/bin/sh", "-c", "false && echo no || echo yes"]).0, "yes\n");
        assert_eq!(ran(&["sh", "-c", "false || true && echo both"]).0, "both\n");
    }

    #[test]
    fn an_unknown_command_is_not_found() {
        assert_eq!(ran(&["vim"]), (String::new(), "sh: vim: not found\n".into(), 127));
    }
}
