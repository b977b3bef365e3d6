//! What a run found: as a table, as JSON, and as a picture.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::measure::Compared;

/// What is shown and kept of a run.
#[derive(Debug)]
pub(crate) struct Results {
    /// What was measured.
    pub(crate) what: String,
    pub(crate) table: String,
    pub(crate) json: String,
    pub(crate) picture: String,
}

impl Results {
    /// The table, on standard output.
    #[allow(clippy::print_stdout)]
    pub(crate) fn print(&self) {
        println!("{}", self.table);
    }

    /// Writes `bench/results/WHAT.{md,json,svg}`.
    pub(crate) fn write(&self) -> Result<()> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("results");
        std::fs::create_dir_all(&folder)?;
        let write = |ending: &str, text: &str| {
            let path = folder.join(format!("{}.{ending}", self.what));
            std::fs::write(&path, text).with_context(|| path.display().to_string())
        };
        write("md", &self.table)?;
        write("json", &self.json)?;
        write("svg", &self.picture)?;
        eprintln!("written to bench/results/{}.md, .json and .svg", self.what);
        Ok(())
    }
}

/// One line of the table.
#[derive(Debug, Serialize)]
struct Figure {
    name: String,
    unit: &'static str,
    limit_is: String,
    limit: f64,
    ours: f64,
    ratio: f64,
    wanted: Option<f64>,
}

/// Times of one contestant, in milliseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Time {
    pub(crate) name: String,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// The worst round's p99.
    pub(crate) worst: f64,
    /// The most that we promise ourselves of the p99.
    pub(crate) wanted: Option<f64>,
}

/// All figures of a run, with the machine and the day.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    what: String,
    date: String,
    machine: String,
    figures: Vec<Figure>,
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    times: Vec<Time>,
}

impl Report {
    /// An empty report.
    pub(crate) fn new(what: &str) -> Self {
        Report {
            what: what.into(),
            date: date(),
            machine: machine(),
            figures: vec![],
            notes: vec![],
            times: vec![],
        }
    }

    /// Adds a comparison; `wanted` is the least ratio that we promise ourselves.
    pub(crate) fn add(
        &mut self,
        name: &str,
        unit: &'static str,
        limit_is: &str,
        compared: Compared,
        wanted: Option<f64>,
    ) {
        let Compared { limit, ours, ratio } = compared;
        let (name, limit_is) = (name.to_string(), limit_is.to_string());
        self.figures.push(Figure { name, unit, limit_is, limit, ours, ratio, wanted });
    }

    /// Adds a figure that stands beside nothing.
    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Adds times of a contestant.
    pub(crate) fn add_time(&mut self, time: Time) {
        self.times.push(time);
    }

    /// As a table, as JSON, and as a picture.
    pub(crate) fn results(&self) -> Result<Results> {
        Ok(Results {
            what: self.what.clone(),
            table: self.table(),
            json: serde_json::to_string_pretty(self)? + "\n",
            picture: self.picture(),
        })
    }

    fn table(&self) -> String {
        let mut table = format!("{}, {}\n\n", self.machine, self.date);
        self.figure_table(&mut table);
        self.time_table(&mut table);
        for note in &self.notes {
            let _ = write!(table, "\n{note}\n");
        }
        table
    }

    fn figure_table(&self, table: &mut String) {
        if self.figures.is_empty() {
            return;
        }
        table.push_str("| what | unit | beside | limit | Consort | ratio | wanted |\n");
        table.push_str("| --- | --- | --- | ---: | ---: | ---: | ---: |\n");
        for f in &self.figures {
            let wanted = f.wanted.map_or("–".into(), |wanted| format!("≥ {wanted}"));
            let _ = writeln!(
                table,
                "| {} | {}/s | {} | {} | {} | {:.2} | {wanted} |",
                f.name,
                f.unit,
                f.limit_is,
                thousands(f.limit),
                thousands(f.ours),
                f.ratio
            );
        }
    }

    fn time_table(&self, table: &mut String) {
        if self.times.is_empty() {
            return;
        }
        if !self.figures.is_empty() {
            table.push('\n');
        }
        table.push_str("| what | p50 | p99 | worst p99 | wanted p99 |\n");
        table.push_str("| --- | ---: | ---: | ---: | ---: |\n");
        for Time { name, p50, p99, worst, wanted } in &self.times {
            let wanted = wanted.map_or("–".into(), |wanted| format!("≤ {wanted} ms"));
            let _ = writeln!(
                table,
                "| {name} | {p50:.1} ms | {p99:.1} ms | {worst:.1} ms | {wanted} |"
            );
        }
    }

    /// A bar for each ratio, with a mark where it should at least reach.
    fn picture(&self) -> String {
        const ROW: usize = 34;
        const LEFT: usize = 430;
        const WIDTH: f64 = 330.0;
        let height = 60 + ROW * (self.figures.len() + self.times.len());
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"860\" height=\"{height}\" fill=\"white\"/>\n<text x=\"10\" y=\"22\" font-size=\"15\">Consort beside its limits: ratios of the same run ({}, {})</text>\n",
            self.machine, self.date
        );
        for (n, f) in self.figures.iter().enumerate() {
            // Each bar on a scale of its own, so that what is wanted stands at the same place.
            let full = f.wanted.unwrap_or(1.0).max(0.001) * 2.0;
            let (y, long) = (45 + n * ROW, (f.ratio / full * WIDTH).min(WIDTH));
            let reached = f.wanted.is_none_or(|wanted| f.ratio >= wanted);
            let colour = if reached { "#3a7d44" } else { "#b3452c" };
            let _ = writeln!(
                svg,
                "<text x=\"10\" y=\"{}\">{}</text><rect x=\"{LEFT}\" y=\"{y}\" width=\"{long:.0}\" height=\"20\" fill=\"{colour}\"/><text x=\"{:.0}\" y=\"{}\">{:.2}</text>",
                y + 15,
                escape(&f.name),
                LEFT as f64 + long + 6.0,
                y + 15,
                f.ratio
            );
            if let Some(wanted) = f.wanted {
                let x = LEFT as f64 + wanted / full * WIDTH;
                let _ = writeln!(
                    svg,
                    "<line x1=\"{x:.0}\" y1=\"{}\" x2=\"{x:.0}\" y2=\"{}\" stroke=\"black\" stroke-width=\"2\"/>",
                    y - 4,
                    y + 24
                );
            }
        }
        // Times stand below, on one scale: the slowest contestant's fills it.
        let slowest = self.times.iter().map(|time| time.p99).fold(1.0, f64::max);
        for (n, time) in self.times.iter().enumerate() {
            let y = 45 + (self.figures.len() + n) * ROW;
            let long = (time.p99.max(0.0) / slowest * WIDTH).max(1.0);
            let reached = time.wanted.is_none_or(|wanted| time.p99 <= wanted);
            let _ = writeln!(
                svg,
                "<text x=\"10\" y=\"{}\">{}</text><rect x=\"{LEFT}\" y=\"{y}\" width=\"{long:.0}\" height=\"20\" fill=\"{}\"/><text x=\"{:.0}\" y=\"{}\">{:.1} ms</text>",
                y + 15,
                escape(&format!("{}, p99", time.name)),
                if reached { "#3a7d44" } else { "#b3452c" },
                LEFT as f64 + long + 6.0,
                y + 15,
                time.p99
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let model = model.trim_start_matches([' ', '\t', ':']).trim();
    format!("{cores} cores of {}", if model.is_empty() { "an unnamed CPU" } else { model })
}

pub(crate) fn date() -> String {
    let output = Command::new("date").arg("+%Y-%m-%d").output();
    let date = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    date.unwrap_or_else(|_| "an unknown day".into())
}
