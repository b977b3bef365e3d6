//! The picture: a bar from the least to the worst of each spread, with a mark at the median.

use std::fmt::Write as _;

use super::spread::Spread;
use crate::report::escape;

const ROW: usize = 28;
const TOP: usize = 60;
const LEFT: f64 = 480.0;
const WIDTH: f64 = 400.0;

/// From 1 ms to 10 s, each decade as wide as the other: hand-overs and take-overs are far apart.
const DECADES: f64 = 4.0;

pub(super) fn picture(title: &str, spreads: &[&Spread], ttl: f64) -> String {
    let height = TOP + ROW * spreads.len() + 10;
    let bottom = height - 10;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1010\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"1010\" height=\"{height}\" fill=\"white\"/>\n<text x=\"10\" y=\"22\" font-size=\"15\">{}</text>\n",
        escape(title)
    );
    for (at, label) in
        [(1.0, "1 ms"), (10.0, "10 ms"), (100.0, "100 ms"), (1_000.0, "1 s"), (10_000.0, "10 s")]
    {
        line(&mut svg, at, label, bottom, "#cccccc");
    }
    line(&mut svg, ttl, "ttl", bottom, "#b3452c");
    for (n, spread) in spreads.iter().enumerate() {
        row(&mut svg, TOP + n * ROW, spread);
    }
    svg.push_str("</svg>\n");
    svg
}

fn line(svg: &mut String, at: f64, label: &str, bottom: usize, colour: &str) {
    let x = place(at);
    let _ = writeln!(
        svg,
        "<line x1=\"{x:.0}\" y1=\"{}\" x2=\"{x:.0}\" y2=\"{bottom}\" stroke=\"{colour}\"/><text x=\"{x:.0}\" y=\"{}\" fill=\"#555555\" font-size=\"11\" text-anchor=\"middle\">{label}</text>",
        TOP - 8,
        TOP - 12
    );
}

fn row(svg: &mut String, y: usize, spread: &Spread) {
    let (least, median, worst) = (place(spread.least), place(spread.median), place(spread.worst));
    let _ = writeln!(
        svg,
        "<text x=\"10\" y=\"{}\">{}</text><rect x=\"{least:.0}\" y=\"{y}\" width=\"{:.0}\" height=\"16\" fill=\"#3a7d44\" fill-opacity=\"0.5\"/><line x1=\"{median:.0}\" y1=\"{}\" x2=\"{median:.0}\" y2=\"{}\" stroke=\"black\" stroke-width=\"2\"/><text x=\"{:.0}\" y=\"{}\">{:.0} to {:.0} ms</text>",
        y + 13,
        escape(&spread.name),
        (worst - least).max(1.0),
        y - 2,
        y + 18,
        LEFT + WIDTH + 8.0,
        y + 13,
        spread.median,
        spread.worst
    );
}

/// Where a time stands, in milliseconds.
fn place(millis: f64) -> f64 {
    LEFT + (millis.max(1.0).log10() / DECADES).min(1.0) * WIDTH
}
