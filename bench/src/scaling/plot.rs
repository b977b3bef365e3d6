//! The plot over time: records offered and applied a second, the lag, and the nodes wanted and live.

use std::fmt::Write as _;

use super::samples::{Course, Sample};
use crate::report::escape;

const WIDTH: f64 = 900.0;
const PANEL: f64 = 150.0;
const GAP: f64 = 50.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 60.0;

/// The rate applied is a mean over so many samples: workers apply in batches.
const SMOOTH: usize = 12;

struct Line<'a> {
    name: &'a str,
    colour: &'a str,
    /// Seconds, and the value.
    points: Vec<(f64, f64)>,
}

pub(super) fn plot(title: &str, course: &Course) -> String {
    let points = |value: &dyn Fn(&Sample) -> Option<f64>| {
        let point = |sample: &Sample| Some((sample.at, value(sample)?));
        course.samples.iter().filter_map(point).collect::<Vec<_>>()
    };
    let panels = [
        (
            "records/s",
            vec![
                Line { name: "offered", colour: "#b3452c", points: points(&|s| Some(s.offered)) },
                Line { name: "applied", colour: "#3a7d44", points: applied(&course.samples) },
            ],
        ),
        (
            "lag, s",
            vec![Line { name: "largest lag", colour: "#555577", points: points(&|s| s.lag) }],
        ),
        (
            "nodes",
            vec![
                Line {
                    name: "wanted",
                    colour: "#b3452c",
                    points: points(&|s| s.wanted.map(|wanted| wanted as f64)),
                },
                Line { name: "live", colour: "#3a7d44", points: points(&|s| Some(s.live as f64)) },
            ],
        ),
    ];
    let end = course.samples.last().map_or(1.0, |sample| sample.at).max(1.0);
    let height = TOP + 3.0 * (PANEL + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"10\" y=\"22\" font-size=\"15\">{}</text>\n",
        LEFT + WIDTH + 40.0,
        escape(title)
    );
    for (number, (unit, lines)) in panels.iter().enumerate() {
        panel(&mut svg, TOP + number as f64 * (PANEL + GAP), unit, lines, end);
    }
    svg.push_str("</svg>\n");
    svg
}

fn applied(samples: &[Sample]) -> Vec<(f64, f64)> {
    let pairs = samples.windows(SMOOTH);
    let rate = |window: &[Sample]| {
        let (first, last) = (window.first()?, window.last()?);
        let time = (last.at - first.at).max(0.001);
        Some((last.at, last.applied.saturating_sub(first.applied) as f64 / time))
    };
    pairs.filter_map(rate).collect()
}

fn panel(svg: &mut String, top: f64, unit: &str, lines: &[Line<'_>], end: f64) {
    let values = lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value);
    let most = values.fold(1.0, f64::max) * 1.1;
    let bottom = top + PANEL;
    let (x, y) = (|at: f64| LEFT + at / end * WIDTH, |value: f64| bottom - value / most * PANEL);
    let _ = writeln!(
        svg,
        "<line x1=\"{LEFT}\" y1=\"{bottom:.0}\" x2=\"{:.0}\" y2=\"{bottom:.0}\" stroke=\"#999999\"/><text x=\"10\" y=\"{:.0}\" fill=\"#555555\">{unit}</text><text x=\"10\" y=\"{:.0}\" fill=\"#555555\" font-size=\"11\">{:.0}</text>",
        LEFT + WIDTH,
        bottom - PANEL / 2.0,
        top + 10.0,
        most / 1.1
    );
    for step in 0..=10 {
        let at = end * f64::from(step) / 10.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" fill=\"#555555\" font-size=\"11\" text-anchor=\"middle\">{at:.0} s</text>",
            x(at),
            bottom + 15.0
        );
    }
    for (number, line) in lines.iter().enumerate() {
        let points: Vec<String> = line
            .points
            .iter()
            .map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"{}\"/><text x=\"{:.0}\" y=\"{:.0}\" fill=\"{}\">{}</text>",
            line.colour,
            points.join(" "),
            LEFT + 10.0 + 110.0 * number as f64,
            top - 6.0,
            line.colour,
            line.name
        );
    }
}
