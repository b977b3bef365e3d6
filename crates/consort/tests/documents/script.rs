//! The text of an `sh` block: how it runs, which program it leaves running, and whether it only reads.

/// How the documents call the program from a checkout.
const FROM_CHECKOUT: &str = "cargo run --release -- ";

/// A program that a block leaves running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Node,
    Relay,
    Upstream,
    Redis,
}

impl Service {
    /// What the program prints when it is ready.
    pub(crate) fn announcement(self) -> &'static str {
        match self {
            Service::Node | Service::Upstream => "listens on http://",
            Service::Relay => "its counters are at http://",
            Service::Redis => "Ready to accept connections",
        }
    }
}

/// The script as it runs.
pub(crate) fn runnable(block: &str) -> String {
    block.replace(FROM_CHECKOUT, "consort ")
}

/// The program that the last command starts, if it is one that goes on until it is stopped. The script with
/// that command as its own process is the second part.
pub(crate) fn service(script: &str) -> Option<(Service, String)> {
    let (start, last) = commands(script).pop()?;
    let mut words = last.split_whitespace().skip_while(|word| is_assignment(word));
    let service = match (words.next()?, words.next()?) {
        ("consort", "serve") => Service::Node,
        ("consort", "relay") => Service::Relay,
        ("consort", "sample-upstream") => Service::Upstream,
        ("redis-server", _) => Service::Redis,
        _ => return None,
    };
    if last.contains("--help") || last.ends_with('&') {
        return None;
    }
    // `exec` takes no assignments before the program; `env` does.
    Some((service, format!("{}exec env {}", &script[..start], &script[start..])))
}

/// Whether every command only reads, so that running the block again changes nothing.
pub(crate) fn only_reads(script: &str) -> bool {
    let commands = commands(script);
    !commands.is_empty() && commands.iter().all(|(_, command)| reads(command))
}

/// The commands, each with its place in the script: a line each, with the lines that it goes on in.
fn commands(script: &str) -> Vec<(usize, String)> {
    let mut commands: Vec<(usize, String)> = Vec::new();
    let (mut place, mut goes_on) = (0, false);
    for line in script.split_inclusive('\n') {
        let text = line.trim();
        let command = text.trim_end_matches('\\');
        match commands.last_mut() {
            Some((_, last)) if goes_on => last.push_str(command),
            _ if text.is_empty() || text.starts_with('#') => {}
            _ => commands.push((place, command.to_owned())),
        }
        goes_on = text.ends_with('\\');
        place += line.len();
    }
    commands
}

fn reads(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let writes_elsewhere =
        command.contains([';', '>']) || ["&&", "||"].iter().any(|joint| command.contains(joint));
    match words.as_slice() {
        ["curl", options @ ..] if !writes_elsewhere => {
            let as_query = options.iter().any(|word| ["-G", "--get"].contains(word));
            as_query || !options.iter().any(|word| sends(word))
        }
        ["consort", "status", ..] => !writes_elsewhere,
        _ => false,
    }
}

/// Whether an option of curl makes a request that may change something.
fn sends(word: &str) -> bool {
    const LONG: [&str; 5] = ["--data", "--request", "--json", "--form", "--upload-file"];
    match word.strip_prefix('-') {
        Some(long) if long.starts_with('-') => LONG.iter().any(|option| word.starts_with(option)),
        Some(short) => short.contains(['d', 'X', 'T', 'F']),
        None => false,
    }
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'))
}
