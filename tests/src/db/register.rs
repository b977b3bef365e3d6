//! The workload on registers: sixteen clients write, swap and read few registers, at every level of freshness.

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::REGISTER;
use super::caller::{DbCaller, Workload};
use super::client::NodeList;
use super::clock::TrialClock;
use super::load::{DbLoad, run_all};
use crate::lin::history::{ReadLevel, Row, RowCell};
use crate::lin::registers::{RegisterAccess, RegisterRecord};

/// Clients.
const CLIENTS: u32 = 16;

/// Registers: few, so that the calls of several clients meet on each.
const REGISTERS: i64 = 12;

/// Registers that one client reads on one snapshot.
const READ_TOGETHER: usize = 3;

/// Starts the clients.
pub fn start(nodes: NodeList, clock: TrialClock, random: &mut StdRng) -> DbLoad<RegisterRecord> {
    let workload = Workload::new(nodes, REGISTER, clock);
    let client = |number| RegisterClient {
        caller: DbCaller::new(number, &workload, random),
        values: vec![0; REGISTERS as usize],
        records: Vec::new(),
    };
    let clients: Vec<RegisterClient> = (0..CLIENTS).map(client).collect();
    DbLoad::start(workload, run_all(clients.into_iter().map(RegisterClient::run)))
}

struct RegisterClient {
    caller: DbCaller,
    /// The value that it last saw of each register, to swap it for another.
    values: Vec<i64>,
    records: Vec<RegisterRecord>,
}

impl RegisterClient {
    async fn run(mut self) -> Vec<RegisterRecord> {
        while !self.caller.is_stopped() {
            match self.caller.random.random_range(0..100) {
                0..30 => self.write().await,
                30..50 => self.swap().await,
                50..80 => self.read(ReadLevel::Strong).await,
                80..90 => self.read(ReadLevel::After(self.caller.position)).await,
                _ => self.read(ReadLevel::Any).await,
            }
            self.caller.think().await;
        }
        self.records
    }

    async fn write(&mut self) {
        let (register, stamp) = (self.any_register(), self.caller.stamp());
        let set = "INSERT INTO registers (id, value) VALUES (?, ?) \
                   ON CONFLICT (id) DO UPDATE SET value = excluded.value";
        let statements = json!([[set, register, stamp], noted(register, stamp)]);
        let (span, outcome) = self.caller.write(&statements).await;
        let access = RegisterAccess::Write { stamp, outcome };
        self.records.push(RegisterRecord { client: self.caller.number, span, register, access });
    }

    async fn swap(&mut self) {
        let (register, stamp) = (self.any_register(), self.caller.stamp());
        let from = self.values[register as usize];
        let set = "UPDATE registers SET value = :to WHERE id = :id AND value = :from";
        let args = json!({"id": register, "from": from, "to": stamp});
        let swap = json!({"sql": set, "args": args, "changes": 1});
        let statements = json!([swap, noted(register, stamp)]);
        let (span, outcome) = self.caller.write(&statements).await;
        let access = RegisterAccess::Swap { from, stamp, outcome };
        self.records.push(RegisterRecord { client: self.caller.number, span, register, access });
    }

    /// Reads some registers on one snapshot; each is a read of its own for the checkers.
    async fn read(&mut self, level: ReadLevel) {
        let count = self.caller.random.random_range(1..=READ_TOGETHER);
        let registers: Vec<i64> = (0..count).map(|_| self.any_register()).collect();
        let query = "SELECT id, value FROM registers WHERE id = ?";
        let queries: Vec<Value> = registers.iter().map(|id| json!([query, id])).collect();
        let Some((span, index, results)) = self.caller.read(&json!(queries), level).await else {
            return;
        };
        assert_eq!(results.len(), registers.len(), "each query has a result");
        for (register, rows) in registers.into_iter().zip(results) {
            let value = value(register, &rows);
            if let Some(value) = value {
                self.values[register as usize] = value;
            }
            let access = RegisterAccess::Read { value, index, level };
            let client = self.caller.number;
            self.records.push(RegisterRecord { client, span, register, access });
        }
    }

    fn any_register(&mut self) -> i64 {
        self.caller.random.random_range(0..REGISTERS)
    }
}

/// The statement that adds a write to the history.
fn noted(register: i64, stamp: i64) -> Value {
    json!(["INSERT INTO history (stamp, register) VALUES (?, ?)", stamp, register])
}

fn value(register: i64, rows: &[Row]) -> Option<i64> {
    match rows {
        [] => None,
        [row] => match row[..] {
            [RowCell::Integer(id), RowCell::Integer(value)] if id == register => Some(value),
            _ => panic!("{row:?} is not register {register}"),
        },
        _ => panic!("register {register} has the rows {rows:?}"),
    }
}
