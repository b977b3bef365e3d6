//! What the roles of a node say of themselves: written beside its heartbeat, read for the status.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::format::encode;
use crate::load::LoadReport;
use crate::rates::RateWindow;
use crate::refusal::shortened;
use crate::role::Role;
use crate::tenure::Gauge;

/// The work of a role is a mean over this time: several batches.
pub const WORK_WINDOW: Duration = Duration::from_secs(10);

/// The largest report, in bytes: it goes with every heartbeat, which must not be refused for it. Several
/// thousand roles fit.
const REPORT_BYTES: usize = 1024 * 1024;

/// Why a role was without work before its tenure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseCause {
    /// Nobody ever worked on it: the pause is the time the work took to begin.
    First,
    /// The last owner drained and released it.
    HandedOver,
    /// The last owner's lease lapsed.
    TakenOver,
}

impl PauseCause {
    /// As it is written in answers and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            PauseCause::First => "first",
            PauseCause::HandedOver => "handed_over",
            PauseCause::TakenOver => "taken_over",
        }
    }
}

/// How long nobody worked on a role, until its tenure began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Why.
    pub cause: PauseCause,
    /// How long, by the store's clock.
    pub millis: u64,
}

/// The report cell of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Which start of the node.
    pub incarnation: u64,
    /// The roles it holds, in their order.
    pub roles: Vec<RoleReport>,
    /// What its process uses and takes in; `None` from a release that did not say.
    #[serde(default)]
    pub load: Option<LoadReport>,
}

/// What one role says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleReport {
    /// Which role.
    pub role: Role,
    /// Under which epoch of its lease.
    pub epoch: u64,
    /// Whether its work has begun.
    pub ready: bool,
    /// The age of the oldest input not yet applied, in milliseconds, if it knows.
    pub lag: Option<u64>,
    /// How much it applied since it began.
    pub applied: u64,
    /// What hinders it at the moment.
    pub trouble: Option<String>,
    /// Why it stopped until an operator decides.
    pub stopped: Option<String>,
    /// The pause before this tenure, once it has begun.
    pub pause: Option<Pause>,
    /// The share of the last [`WORK_WINDOW`] with a batch in hand, in thousandths.
    #[serde(default)]
    pub busy_permille: u64,
    /// How much it applied in each second of that time.
    #[serde(default)]
    pub applied_per_s: u64,
}

/// How much of its time a role worked, and how much it applied.
#[derive(Clone, Debug)]
pub(crate) struct WorkMeter(RateWindow<2>);

impl WorkMeter {
    pub(crate) fn new() -> WorkMeter {
        WorkMeter(RateWindow::new(WORK_WINDOW))
    }

    /// The share of time worked in thousandths, and the rate applied, up to this local time.
    fn record(&mut self, gauge: &Gauge, now: Duration) -> (u64, u64) {
        let totals = [gauge.worked_at(now).as_secs_f64(), gauge.applied as f64];
        let [busy, applied] = self.0.record(now, totals);
        ((busy.min(1.0) * 1000.0).round() as u64, applied.round() as u64)
    }
}

impl RoleReport {
    /// What the work of `role` says at this local time.
    pub(crate) fn new(
        role: &Role,
        epoch: u64,
        gauge: &Gauge,
        meter: &mut WorkMeter,
        pause: Option<Pause>,
        elapsed: Duration,
    ) -> Self {
        let (busy_permille, applied_per_s) = meter.record(gauge, elapsed);
        let short = |text: &String| shortened(text).to_string();
        RoleReport {
            role: role.clone(),
            epoch,
            ready: gauge.ready,
            lag: gauge.lag_at(elapsed).map(whole_millis),
            applied: gauge.applied,
            trouble: gauge.trouble.as_ref().map(short),
            stopped: gauge.stopped.as_ref().map(short),
            pause,
            busy_permille,
            applied_per_s,
        }
    }
}

impl Report {
    /// The bytes to store: of all roles, or of as many as fit.
    pub fn stored(mut self) -> Bytes {
        loop {
            let stored = encode(&self);
            if stored.len() <= REPORT_BYTES {
                return stored;
            }
            self.roles.truncate(self.roles.len() / 2);
        }
    }

    /// What it says of `role` under `epoch`.
    pub fn of(&self, role: &Role, epoch: u64) -> Option<&RoleReport> {
        self.roles.iter().find(|report| report.role == *role && report.epoch == epoch)
    }
}

/// A duration in whole milliseconds.
pub(crate) fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::decode;
    use crate::load::StreamReport;

    #[test]
    fn version_1_is_read_in_every_release() {
        let gauge = Gauge {
            ready: true,
            lag: Some(Duration::from_millis(40)),
            applied: 9,
            trouble: Some("slow".into()),
            stopped: Some("lost".into()),
            ..Gauge::default()
        };
        let pause = Some(Pause { cause: PauseCause::HandedOver, millis: 12 });
        let role = Role::new("worker", "rides/7");
        let stream =
            StreamReport { stream: "rides".into(), accepted_per_s: 40, ..Default::default() };
        let load = LoadReport { cpu_millicores: 1500, cores: 2, streams: vec![stream] };
        let mut said =
            RoleReport::new(&role, 3, &gauge, &mut WorkMeter::new(), pause, Duration::ZERO);
        (said.busy_permille, said.applied_per_s) = (250, 12);
        let report = Report { incarnation: 7, roles: vec![said], load: Some(load) };
        let stored = "\u{1}{\"incarnation\":7,\"roles\":[{\"role\":\"worker:rides/7\",\"epoch\":3,\
            \"ready\":true,\"lag\":40,\"applied\":9,\"trouble\":\"slow\",\"stopped\":\"lost\",\
            \"pause\":{\"cause\":\"handed_over\",\"millis\":12},\"busy_permille\":250,\"applied_per_s\":12}],\
            \"load\":{\"cpu_millicores\":1500,\"cores\":2,\"streams\":[{\"stream\":\"rides\",\
            \"accepted_per_s\":40,\"refused_per_s\":0,\"delayed_per_s\":0}]}}";
        assert_eq!(&encode(&report)[..], stored.as_bytes());
        assert_eq!(decode(stored.as_bytes()), Ok(report.clone()));
        assert_eq!(report.of(&role, 3).map(|report| report.applied), Some(9));
        assert_eq!(report.of(&role, 4), None);
    }

    #[test]
    fn a_report_of_a_release_that_did_not_measure_load_is_read() {
        let stored = "\u{1}{\"incarnation\":7,\"roles\":[{\"role\":\"worker:rides/7\",\"epoch\":3,\
            \"ready\":true,\"lag\":40,\"applied\":9,\"trouble\":null,\"stopped\":null,\"pause\":null}]}";
        let report: Report = decode(stored.as_bytes()).unwrap();
        assert_eq!((report.roles[0].busy_permille, report.roles[0].applied_per_s), (0, 0));
        assert_eq!(report.load, None);
    }

    #[test]
    fn a_role_tells_how_busy_it_is_and_what_it_applies() {
        let (mut gauge, mut meter) = (Gauge::default(), WorkMeter::new());
        let role = Role::new("worker", "rides/7");
        let mut said = None;
        for n in 0..120 {
            // Of each second it works a quarter, and applies ten.
            let now = Duration::from_millis(250 * n);
            gauge.applied = 10 * (n / 4);
            match n % 4 {
                0 => gauge.work_begins(now),
                _ => gauge.work_ends(now),
            }
            said = Some(RoleReport::new(&role, 1, &gauge, &mut meter, None, now));
        }
        let said = said.unwrap();
        assert!((240..=260).contains(&said.busy_permille), "{said:?}");
        assert!((9..=11).contains(&said.applied_per_s), "{said:?}");
    }

    #[test]
    fn a_report_that_is_too_large_says_what_fits() {
        let gauge = Gauge { trouble: Some("x".repeat(300)), ..Gauge::default() };
        let role = |n: usize| Role::new("worker", n.to_string());
        let meter = &mut WorkMeter::new();
        let report = |n| RoleReport::new(&role(n), 1, &gauge, meter, None, Duration::ZERO);
        let roles = (0..4000).map(report).collect();
        let report = Report { incarnation: 7, roles, load: None };
        let stored = report.stored();
        assert!(stored.len() <= REPORT_BYTES);
        let report: Report = decode(&stored).unwrap();
        assert_eq!(report.roles.len(), 2000);
    }

    #[test]
    fn a_cause_is_written_as_it_is_stored() {
        for cause in [PauseCause::First, PauseCause::HandedOver, PauseCause::TakenOver] {
            let stored = serde_json::to_value(cause).unwrap();
            assert_eq!(stored, cause.as_str());
        }
    }
}
