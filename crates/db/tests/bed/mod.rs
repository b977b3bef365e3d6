//! A leader and two followers on files, with a feed in memory between them.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::time::Duration;

use bytes::Bytes;
use consort_db::follow::{ApplyError, Follower};
use consort_db::write::group::{GroupRun, GroupTerms, GroupWriter, OpenGroup};
use consort_db::write::job::{
    JobAnswer, JobArgs, JobError, JobKey, JobLimits, JobOutcome, JobStatement, SqlValue,
    StatementResult, WriteJob,
};
use consort_kernel::Timestamp;
use tempfile::TempDir;

/// Far more than any test writes.
const MAX_SIZE: u64 = 1 << 40;

pub(crate) struct Bed {
    pub(crate) folder: TempDir,
    pub(crate) leader: GroupWriter,
    pub(crate) followers: Vec<Follower>,
    pub(crate) feed: Vec<Bytes>,
    pub(crate) time: u64,
    pub(crate) limits: JobLimits,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let leader = GroupWriter::open(&folder.path().join("leader"), 1, MAX_SIZE).unwrap();
        let follower = |name: &str| Follower::open(&folder.path().join(name), 1).unwrap();
        let followers = vec![follower("one"), follower("two")];
        let limits = JobLimits::default();
        Bed { folder, leader, followers, feed: Vec::new(), time: 10_000_000, limits }
    }

    pub(crate) fn terms(&self) -> GroupTerms {
        GroupTerms {
            epoch: 1,
            time: Timestamp(self.time),
            limits: self.limits,
            group_time: Duration::MAX,
            group_bytes: u64::MAX,
        }
    }

    /// Runs one group and leaves it open.
    pub(crate) fn open(&mut self, jobs: &[WriteJob]) -> OpenGroup {
        match self.leader.run(jobs, &self.terms()).unwrap() {
            GroupRun::Open(group) => group,
            GroupRun::RunAlone => panic!("the jobs cannot share a group: {jobs:?}"),
        }
    }

    /// Runs one group to its end; jobs that cannot share it run alone.
    pub(crate) fn group(&mut self, jobs: &[WriteJob]) -> Vec<JobOutcome> {
        match self.leader.run(jobs, &self.terms()).unwrap() {
            GroupRun::Open(group) => {
                self.feed.extend(group.entries);
                self.leader.commit().unwrap();
                assert_eq!(self.leader.state().index, self.feed.len() as u64);
                group.outcomes
            }
            GroupRun::RunAlone => {
                assert!(jobs.len() > 1);
                jobs.iter().flat_map(|job| self.group(std::slice::from_ref(job))).collect()
            }
        }
    }

    pub(crate) fn run(&mut self, job: WriteJob) -> JobOutcome {
        self.group(&[job]).remove(0)
    }

    /// Runs one statement, which must take effect.
    pub(crate) fn sql(&mut self, sql: &str) -> StatementResult {
        results(self.run(job(&[sql])).unwrap_or_else(|error| panic!("{sql}: {error:?}"))).remove(0)
    }

    /// Runs one statement although the feed in memory has lost an entry.
    pub(crate) fn sql_unchecked(&mut self, sql: &str) {
        let group = self.open(&[job(&[sql])]);
        self.feed.extend(group.entries);
        self.leader.commit().unwrap();
    }

    /// Runs one statement, which must be refused.
    pub(crate) fn refused(&mut self, sql: &str) -> JobError {
        match self.run(job(&[sql])) {
            Err(error) => error,
            Ok(answer) => panic!("{sql} was accepted: {answer:?}"),
        }
    }

    /// Lets all followers apply the feed.
    pub(crate) fn follow(&mut self) -> Result<(), ApplyError> {
        for follower in &mut self.followers {
            loop {
                let from = follower.state().index as usize;
                if follower.apply(&self.feed[from..])? == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// All workers have the same contents, by a full scan.
    pub(crate) fn assert_equal(&mut self) {
        self.follow().unwrap();
        let content = self.leader.scan().unwrap();
        assert_eq!(self.leader.state().content, content, "the leader lost track of its contents");
        for follower in &self.followers {
            assert_eq!(follower.scan().unwrap(), content, "a follower differs");
            assert_eq!(follower.state(), self.leader.state());
        }
    }

    /// A follower takes the lead: its file is opened for writing.
    pub(crate) fn promote(&mut self) {
        self.follow().unwrap();
        drop(self.followers.remove(0));
        self.leader = GroupWriter::open(&self.folder.path().join("one"), 1, MAX_SIZE).unwrap();
        assert_eq!(self.leader.state().index, self.feed.len() as u64);
    }

    /// One number from a follower's file.
    pub(crate) fn at_follower(&self, sql: &str) -> i64 {
        let file = self.folder.path().join("two");
        let connection = rusqlite::Connection::open(file).unwrap();
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

pub(crate) fn job(statements: &[&str]) -> WriteJob {
    let statements = statements.iter().map(|sql| statement(sql, [])).collect();
    WriteJob { statements, key: None }
}

pub(crate) fn statement<const N: usize>(sql: &str, args: [SqlValue; N]) -> JobStatement {
    JobStatement { sql: sql.into(), args: JobArgs::Positional(args.into()), changes: None }
}

pub(crate) fn keyed(key: &str, hash: u8, statements: &[&str]) -> WriteJob {
    let key = JobKey { key: key.into(), hash: [hash; 32] };
    WriteJob { key: Some(key), ..job(statements) }
}

pub(crate) fn results(answer: JobAnswer) -> Vec<StatementResult> {
    match answer {
        JobAnswer::New(results) => results,
        JobAnswer::Known { .. } => panic!("a job without a key was known"),
    }
}
