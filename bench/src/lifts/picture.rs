//! The picture: a bar for what each contestant takes, and under overload the queue and the memory of each
//! gate over time.

use std::fmt::Write as _;

use super::gate::Overload;
use super::speed::{Measured, RIDES};
use super::watch::Sample;
use crate::report::{escape, thousands};

const WIDTH: f64 = 1010.0;
const LEFT: f64 = 330.0;
const BAR: f64 = 520.0;
const ROW: f64 = 28.0;
const TOP: f64 = 40.0;
const PANEL: f64 = 220.0;
const PANEL_LEFT: f64 = 90.0;
const PANEL_WIDTH: f64 = 740.0;
const COLOURS: [&str; 5] = ["#b3452c", "#d08a1d", "#3a7d44", "#555555", "#2c5fb3"];

pub(super) fn picture(title: &str, speed: &[Measured], overloads: &[Overload]) -> String {
    let mut body = String::new();
    let mut y = bars(&mut body, TOP, speed);
    if !overloads.is_empty() {
        let queue = Panel {
            title: "records that wait, under three times the load (each decade as high as the other)",
            of: |sample| (sample.waiting().max(1) as f64).log10(),
            label: |value| thousands(10f64.powf(value)),
            step: 1.0,
        };
        y = queue.draw(&mut body, y, overloads);
        let memory = Panel {
            title: "memory of the process meanwhile, in MiB",
            of: |sample| sample.rss as f64 / (1024.0 * 1024.0),
            label: thousands,
            step: 0.0,
        };
        y = memory.draw(&mut body, y, overloads);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{y:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{y:.0}\" fill=\"white\"/>\n<text x=\"10\" y=\"22\" font-size=\"15\">{}</text>\n{body}</svg>\n",
        escape(title)
    )
}

/// A bar for each contestant; the pale part was accepted but not yet in the views. Answers where it ends.
fn bars(svg: &mut String, top: f64, speed: &[Measured]) -> f64 {
    let rate = |measured: &Measured| measured.median(|stretch| stretch.seen.rate);
    let most = speed.iter().map(rate).fold(1.0, f64::max);
    let mut y = top;
    for measured in speed {
        let (rate, sustained) = (rate(measured), measured.median(|stretch| stretch.sustained));
        let (long, dark) = (rate / most * BAR, sustained / most * BAR);
        let Measured { side, connections, rides, .. } = measured;
        let different = if *rides == RIDES { "" } else { ", no repeats" };
        let name = format!("{}, {connections}{different}", side.title());
        let _ = writeln!(
            svg,
            "<text x=\"10\" y=\"{:.0}\">{}</text><rect x=\"{LEFT}\" y=\"{y:.0}\" width=\"{long:.0}\" height=\"18\" fill=\"#3a7d44\" fill-opacity=\"0.4\"/><rect x=\"{LEFT}\" y=\"{y:.0}\" width=\"{dark:.0}\" height=\"18\" fill=\"#3a7d44\"/><text x=\"{:.0}\" y=\"{:.0}\">{}/s</text>",
            y + 14.0,
            escape(&name),
            LEFT + long + 8.0,
            y + 14.0,
            thousands(rate),
        );
        y += ROW;
    }
    y + 20.0
}

/// Lines over time.
struct Panel {
    title: &'static str,
    of: fn(&Sample) -> f64,
    label: fn(f64) -> String,
    /// Between two lines of the grid; 0 for four of them.
    step: f64,
}

impl Panel {
    fn draw(&self, svg: &mut String, top: f64, overloads: &[Overload]) -> f64 {
        let samples = || overloads.iter().flat_map(|overload| &overload.samples);
        let most = samples().map(self.of).fold(1.0, f64::max);
        let long = samples().map(|sample| sample.at).fold(1.0, f64::max);
        let (head, bottom) = (top + 24.0, top + 24.0 + PANEL);
        let x = |at: f64| PANEL_LEFT + at / long * PANEL_WIDTH;
        let y = |value: f64| bottom - value / most * PANEL;
        let _ = writeln!(svg, "<text x=\"10\" y=\"{:.0}\">{}</text>", top + 10.0, self.title);
        let step = if self.step > 0.0 { self.step } else { most / 4.0 };
        for n in 0..=(most / step) as usize {
            let value = n as f64 * step;
            let _ = writeln!(
                svg,
                "<line x1=\"{PANEL_LEFT}\" y1=\"{0:.0}\" x2=\"{1:.0}\" y2=\"{0:.0}\" stroke=\"#cccccc\"/><text x=\"{2:.0}\" y=\"{3:.0}\" font-size=\"11\" fill=\"#555555\" text-anchor=\"end\">{4}</text>",
                y(value),
                PANEL_LEFT + PANEL_WIDTH,
                PANEL_LEFT - 6.0,
                y(value) + 4.0,
                (self.label)(value)
            );
        }
        for (n, overload) in overloads.iter().enumerate() {
            let colour = COLOURS[n % COLOURS.len()];
            let points: Vec<String> = overload
                .samples
                .iter()
                .map(|sample| format!("{:.1},{:.1}", x(sample.at), y((self.of)(sample))))
                .collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/><text x=\"{:.0}\" y=\"{:.0}\" fill=\"{colour}\">{}</text>",
                points.join(" "),
                PANEL_LEFT + PANEL_WIDTH + 12.0,
                head + 14.0 + n as f64 * 18.0,
                escape(overload.gate)
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" font-size=\"11\" fill=\"#555555\" text-anchor=\"end\">{long:.0} s</text>",
            PANEL_LEFT + PANEL_WIDTH,
            bottom + 14.0
        );
        bottom + 34.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifts::offer::Taken;
    use crate::lifts::speed::{Side, Stretch};
    use crate::lifts::wrk::Seen;

    fn measured(rate: f64) -> Measured {
        let (p50, p99, max) = (1.0, 2.0, 3.0);
        let (accepted, seconds, refused, broken) = (1, 1.0, 0, 0);
        let seen = Seen { rate, accepted, seconds, p50, p99, max, refused, broken };
        let (behind, told_behind, left, caught_up) = (0.0, None, 0, 0.0);
        let sustained = rate / 2.0;
        let stretch = Stretch { seen, sustained, behind, told_behind, left, caught_up };
        Measured { side: Side::Usual, connections: 128, rides: RIDES, rounds: vec![stretch] }
    }

    fn overload(gate: &'static str, waiting: [u64; 3]) -> Overload {
        let sample = |(n, accepted)| Sample {
            at: n as f64,
            accepted,
            applied: 0,
            lag: None,
            rss: accepted << 20,
        };
        let samples = waiting.into_iter().enumerate().map(sample).collect();
        let (due, accepted, refused, failed, unsent) = (1, 1, 0, 0, 0);
        let (rate, p50, p99, max) = (1.0, 1.0, 1.0, 1.0);
        let taken = Taken { due, accepted, refused, failed, unsent, rate, p50, p99, max };
        Overload { gate, offered: 1.0, taken, caught_up: None, samples }
    }

    #[test]
    fn there_is_a_bar_for_each_contestant_and_a_line_for_each_gate() {
        let speed = [measured(40_000.0), measured(2_000.0)];
        let overloads = [overload("off", [0, 1_000, 10_000]), overload("breaker", [0, 100, 10])];
        let svg = picture("Lift rides", &speed, &overloads);
        assert_eq!(svg.matches("/s</text>").count(), 2);
        // One in the panel of the queue, one in the panel of the memory.
        assert_eq!(svg.matches("<polyline").count(), 4);
        // At the end of the run the longest queue of all reaches the top of its panel, which is 24 below
        // the bars' end.
        assert!(svg.contains("830.0,140.0\""), "{svg}");
    }
}
