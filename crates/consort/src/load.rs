//! The load of this process, for the scaling signal.

use std::fmt;
use std::time::Duration;

use consort_cluster::{NodeLoad, StreamInput};
use consort_server::Ingresses;
use rustix::time::{ClockId, clock_gettime};

use crate::node::cores;

/// What this process uses, and what comes in through its ingresses.
pub(crate) struct ProcessLoad(pub(crate) Ingresses);

impl NodeLoad for ProcessLoad {
    fn cpu_time(&self) -> Duration {
        cpu_time(ClockId::ProcessCPUTime)
    }

    fn cores(&self) -> u32 {
        u32::try_from(cores()).unwrap_or(u32::MAX)
    }

    fn inputs(&self) -> Vec<StreamInput> {
        self.0.inputs()
    }
}

fn cpu_time(clock: ClockId) -> Duration {
    let used = clock_gettime(clock);
    let seconds = u64::try_from(used.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(used.tv_nsec).unwrap_or_default())
}

impl fmt::Debug for ProcessLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProcessLoad").field(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_of_the_process_grows_with_the_work_of_a_thread() {
        let before = cpu_time(ClockId::ProcessCPUTime);
        let worked = Duration::from_millis(50);
        let begun = cpu_time(ClockId::ThreadCPUTime);
        while cpu_time(ClockId::ThreadCPUTime) < begun + worked {
            std::hint::spin_loop();
        }
        let used = cpu_time(ClockId::ProcessCPUTime) - before;
        assert!(used >= worked, "{used:?}");
    }
}
