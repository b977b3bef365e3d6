//! A page, taken apart into the steps of its test.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::expected::Expected;
use crate::info::Info;
use crate::servers::Server;

/// A sentence between a command and its output has at most so many bytes; a longer text is about something else.
const SENTENCE: usize = 120;

/// A page and its steps, in order.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) file: String,
    pub(crate) node: NodeOption,
    pub(crate) servers: Vec<Server>,
    pub(crate) steps: Vec<Step>,
    /// Reasons of the blocks that do not run.
    pub(crate) ignored: Vec<String>,
    /// Whether any block is Rust, which documentation tests run.
    pub(crate) has_rust: bool,
}

/// The node that runs before the first block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NodeOption {
    Tour,
    None,
    Config(String),
}

/// One block's part in the test.
#[derive(Debug)]
pub(crate) struct Step {
    /// The line of the block's first line in the page.
    pub(crate) line: usize,
    pub(crate) action: Action,
}

#[derive(Debug)]
pub(crate) enum Action {
    Run(Command),
    Write { path: String, text: String },
    CheckSettings { text: String },
}

/// An `sh` block.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) script: String,
    /// The exit code that the block names.
    pub(crate) exit: Option<i32>,
    /// Whether the expected output includes standard error.
    pub(crate) with_errors: bool,
    /// Whether the page's programs are stopped first.
    pub(crate) restart: bool,
    pub(crate) expected: Option<Expected>,
}

impl Page {
    /// Takes a page apart. The error lists every mistake, each with its place.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Page, Vec<String>> {
        let mut reader = PageReader::new(file, text);
        let (mut paragraph, mut code): (Option<usize>, Option<(usize, String, String)>) =
            (None, None);
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    let info = match kind {
                        CodeBlockKind::Fenced(info) => info.to_string(),
                        CodeBlockKind::Indented => String::new(),
                    };
                    code = Some((range.start, info, String::new()));
                }
                Event::Text(more) if code.is_some() => {
                    if let Some((_, _, text)) = &mut code {
                        text.push_str(&more);
                    }
                }
                Event::End(TagEnd::CodeBlock) => {
                    if let Some((start, info, text)) = code.take() {
                        reader.block(start, &info, text);
                    }
                }
                Event::Start(Tag::Paragraph) => paragraph = Some(range.len()),
                Event::End(TagEnd::Paragraph) => reader.passed(paragraph.take() <= Some(SENTENCE)),
                Event::Start(Tag::Heading { .. } | Tag::List(_) | Tag::Table(_)) => {
                    reader.passed(false)
                }
                _ => {}
            }
        }
        reader.finish()
    }

    /// Whether anything of the page must run.
    pub(crate) fn has_work(&self) -> bool {
        !self.steps.is_empty()
    }
}

/// Collects the steps while the blocks go by.
struct PageReader<'a> {
    text: &'a str,
    page: Page,
    node: Option<NodeOption>,
    mistakes: Vec<String>,
    /// Whether a block that comes now can be the output of the last step, and how many sentences stand between.
    follows: Option<usize>,
    /// The last titled settings, for fragments.
    settings: String,
}

impl<'a> PageReader<'a> {
    fn new(file: &str, text: &'a str) -> PageReader<'a> {
        let page = Page {
            file: file.to_owned(),
            node: NodeOption::None,
            servers: Vec::new(),
            steps: Vec::new(),
            ignored: Vec::new(),
            has_rust: false,
        };
        let settings = String::new();
        let mut reader =
            PageReader { text, page, node: None, mistakes: Vec::new(), follows: None, settings };
        reader.options();
        reader
    }

    /// The comment in the first line.
    fn options(&mut self) {
        let first = self.text.lines().next().unwrap_or_default();
        let Some(options) = first.strip_prefix("<!-- runner:") else { return };
        let Some(options) = options.strip_suffix("-->") else {
            return self.mistake(1, "the runner's comment must end in its line");
        };
        for option in options.split_whitespace() {
            match option.split_once('=') {
                Some(("node", "tour")) => self.node = Some(NodeOption::Tour),
                Some(("node", "none")) => self.node = Some(NodeOption::None),
                Some(("node", path)) => self.node = Some(NodeOption::Config(path.to_owned())),
                Some(("servers", names)) => {
                    for name in names.split(',') {
                        match Server::parse(name) {
                            Some(server) => self.page.servers.push(server),
                            None => self.mistake(1, &format!("the runner has no server '{name}'")),
                        }
                    }
                }
                _ => self.mistake(1, &format!("'{option}' is neither node=… nor servers=…")),
            }
        }
    }

    /// Something other than a block went by.
    fn passed(&mut self, sentence: bool) {
        self.follows = match self.follows {
            Some(0) if sentence => Some(1),
            _ => None,
        };
    }

    fn block(&mut self, start: usize, info: &str, text: String) {
        let line = self.text[..start].matches('\n').count() + 1;
        let follows = self.follows.take().is_some();
        let info = match Info::parse(info) {
            Ok(info) => info,
            Err(mistake) => return self.mistake(line, &mistake),
        };
        let (words, options): (&[&str], &[&str]) = match info.language.as_str() {
            "sh" => (&["stderr", "restart"], &["exit", "ignore"]),
            "toml" => (&["fragment", "figure"], &["title", "ignore"]),
            "rust" => return self.page.has_rust = true,
            "mermaid" => return,
            _ => (&["figure"], &["title"]),
        };
        if let Some(unknown) = info.unknown(words, options) {
            let language = &info.language;
            return self.mistake(line, &format!("a '{language}' block has no option '{unknown}'"));
        }
        if let Some(reason) = info.option("ignore") {
            return self.page.ignored.push(reason.to_owned());
        }
        match info.language.as_str() {
            "sh" => self.command(line, &info, text),
            _ if info.has("figure") => {}
            "toml" => self.toml(line, &info, text),
            _ if info.option("title").is_some() => self.file(line, &info, text),
            "text" | "json" if follows => self.expected(line, &info.language, text),
            "text" | "json" => self.mistake(
                line,
                "this block is compared with nothing: move it directly behind its sh block, or mark it 'figure'",
            ),
            "" => self.mistake(line, "the block has no language: an illustration is 'text figure'"),
            "bash" | "shell" | "console" => self.mistake(line, "blocks of commands are 'sh'"),
            other => self.mistake(line, &format!("a block in '{other}' needs a title, or 'figure'")),
        }
    }

    fn command(&mut self, line: usize, info: &Info, script: String) {
        let exit = match info.option("exit").map(str::parse) {
            None => None,
            Some(Ok(code)) => Some(code),
            Some(Err(_)) => return self.mistake(line, "'exit' must be a number"),
        };
        let with_errors = exit.is_some() || info.has("stderr");
        let restart = info.has("restart");
        let command = Command { script, exit, with_errors, restart, expected: None };
        self.step(line, Action::Run(command));
        self.follows = Some(0);
    }

    fn expected(&mut self, line: usize, language: &str, text: String) {
        let expected = match Expected::parse(language, line, text) {
            Ok(expected) => expected,
            Err(mistake) => return self.mistake(line, &mistake),
        };
        match self.page.steps.last_mut() {
            Some(Step { action: Action::Run(command), .. }) if command.expected.is_none() => {
                command.expected = Some(expected);
            }
            _ => self.mistake(line, "no command has this output"),
        }
    }

    fn toml(&mut self, line: usize, info: &Info, text: String) {
        if info.option("title").is_some() {
            self.settings.clone_from(&text);
            return self.file(line, info, text);
        }
        let text = match info.has("fragment") {
            true => format!("{}\n{text}", self.settings),
            false => text,
        };
        self.step(line, Action::CheckSettings { text });
    }

    fn file(&mut self, line: usize, info: &Info, text: String) {
        let path = info.option("title").unwrap_or_default().to_owned();
        match path.is_empty() || path.starts_with('/') || path.contains("..") {
            true => self.mistake(line, "a title is a path within the page's folder"),
            false => self.step(line, Action::Write { path, text }),
        }
    }

    fn step(&mut self, line: usize, action: Action) {
        self.page.steps.push(Step { line, action });
    }

    fn mistake(&mut self, line: usize, mistake: &str) {
        self.mistakes.push(format!("{}:{line}: {mistake}", self.page.file));
    }

    fn finish(mut self) -> Result<Page, Vec<String>> {
        let runs = self.page.steps.iter().any(|step| matches!(step.action, Action::Run(_)));
        self.page.node = match self.node.take() {
            Some(node) => node,
            None if runs => NodeOption::Tour,
            None => NodeOption::None,
        };
        self.check_titled();
        match self.mistakes.is_empty() {
            true => Ok(self.page),
            false => Err(self.mistakes),
        }
    }

    /// Settings that no later command names are checked where they are written.
    fn check_titled(&mut self) {
        let mut checks = Vec::new();
        for (at, step) in self.page.steps.iter().enumerate() {
            let Action::Write { path, text } = &step.action else { continue };
            let named = self.page.steps[at..].iter().any(
                |later| matches!(&later.action, Action::Run(run) if run.script.contains(path)),
            );
            if path.ends_with(".toml") && !named {
                let action = Action::CheckSettings { text: text.clone() };
                checks.push(Step { line: step.line, action });
            }
        }
        self.page.steps.extend(checks);
    }
}
