//! How soon a thread gets its turn, where there are more threads than processors.
//!
//! It is a wish, and nothing but speed depends on it. What a system says that does not grant it is not heeded.

/// What the turns of a thread should be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// As the system gives them.
    Usual,
    /// Short, and therefore soon: for a thread that works for moments and then waits, and for whose work many
    /// others wait. It gets no more of the processors for it.
    Short,
    /// Behind those of others, though never long behind them: for work that takes its time, while somebody waits
    /// for what the others do.
    Later,
}

impl Turns {
    /// Wishes it for the thread that calls.
    pub fn wish(self) {
        #[cfg(target_os = "linux")]
        match self {
            Turns::Usual => {}
            Turns::Short => linux::change(|attributes| attributes.runtime = linux::SHORT_NANOS),
            Turns::Later => linux::change(|attributes| {
                // Not by what the thread has: it may have it from one that came later.
                attributes.nice = linux::later_than_the_process();
                // As long as is usual.
                attributes.runtime = 0;
            }),
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    /// The shortest turn that there is. Since Linux 6.12 a thread may say how long its turns are, and one whose are
    /// short comes first; older kernels ignore it.
    pub(super) const SHORT_NANOS: u64 = 100_000;

    /// With this much more, a thread gets a third of what another one gets, as long as both have work.
    const LATER_BY: i32 = 5;
    const NICEST: i32 = 19;

    /// The thread that calls.
    pub(super) const SELF: u32 = 0;

    /// How a thread is scheduled, in the first version of what the system calls know.
    #[repr(C)]
    #[derive(Debug, Default, PartialEq, Eq)]
    pub(super) struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        pub(super) nice: i32,
        priority: u32,
        pub(super) runtime: u64,
        deadline: u64,
        period: u64,
    }

    /// How nice a thread is that comes later than the first one of its process.
    pub(super) fn later_than_the_process() -> i32 {
        get(std::process::id()).map_or(0, |first| first.nice).saturating_add(LATER_BY).min(NICEST)
    }

    pub(super) fn change(change: impl FnOnce(&mut Attributes)) {
        if let Some(mut attributes) = get(SELF) {
            change(&mut attributes);
            set(&mut attributes);
        }
    }

    /// How a thread is scheduled; nothing if the system does not tell.
    #[expect(unsafe_code, reason = "no crate of safe calls has this one")]
    pub(super) fn get(thread: u32) -> Option<Attributes> {
        let mut attributes = Attributes::default();
        let (at, size) = (&raw mut attributes, size_of::<Attributes>() as u32);
        // SAFETY: `at` is good for writing `size` bytes, of which any are a value of its type; the call keeps
        // nothing of it.
        let answer = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, at, size, 0) };
        (answer == 0).then_some(attributes)
    }

    #[expect(unsafe_code, reason = "no crate of safe calls has this one")]
    fn set(attributes: &mut Attributes) {
        // SAFETY: the call reads as many bytes as `size` in it says, which `get` had written there and which are those
        // of the type, and may write a number to `size`; it keeps nothing of them, and changes nothing but how the
        // calling thread is scheduled.
        unsafe { libc::syscall(libc::SYS_sched_setattr, SELF, &raw mut *attributes, 0) };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::linux::{SELF, SHORT_NANOS, get, later_than_the_process};
    use super::*;

    /// In a thread of its own: the one of a test may serve another one.
    fn apart(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn who_comes_later_is_nicer_than_the_process_and_so_are_those_it_starts() {
        let nice = || get(SELF).unwrap().nice;
        apart(move || {
            let before = nice();
            Turns::Later.wish();
            assert_eq!(nice(), later_than_the_process());
            assert!(nice() > before, "{before}");
            apart(move || {
                Turns::Later.wish();
                assert_eq!(nice(), later_than_the_process());
            });
        });
    }

    #[test]
    fn short_turns_change_nothing_else_of_a_thread() {
        apart(|| {
            let mut before = get(SELF).unwrap();
            Turns::Usual.wish();
            assert_eq!(get(SELF).unwrap(), before);
            Turns::Short.wish();
            let mut after = get(SELF).unwrap();
            // Older kernels know of no such turns.
            assert!([SHORT_NANOS, 0].contains(&after.runtime), "{after:?}");
            (before.runtime, after.runtime) = (0, 0);
            assert_eq!(after, before);
        });
    }
}
