//! The workload on accounts: sixteen clients move money, and look at all balances at once.

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::json;

use super::BANK;
use super::caller::{DbCaller, Workload};
use super::client::NodeList;
use super::clock::TrialClock;
use super::load::{DbLoad, run_all};
use crate::lin::accounts::{ACCOUNTS, MINT, sum};
use crate::lin::history::{
    CallAction, CallSpan, ClientCall, ClientRead, ClientWrite, ReadLevel, RowCell, ToldOutcome,
};

/// Clients.
const CLIENTS: u32 = 16;

/// Accounts, numbered from 1.
const OWNERS: std::ops::RangeInclusive<i64> = 1..=10;

/// The first deposit of each account.
const DEPOSIT: i64 = 100;

/// The most that is moved at once: often more than an account has.
const MOST: i64 = 60;

/// The money of all accounts together.
pub const TOTAL: i64 = DEPOSIT * *OWNERS.end();

/// Starts the clients. The first one makes all deposits, and then all begin.
pub fn start(nodes: NodeList, clock: TrialClock, random: &mut StdRng) -> DbLoad<ClientCall> {
    let workload = Workload::new(nodes, BANK, clock);
    let client =
        |number| BankClient { caller: DbCaller::new(number, &workload, random), calls: Vec::new() };
    let mut clients: Vec<BankClient> = (0..CLIENTS).map(client).collect();
    DbLoad::start(workload, async move {
        for owner in OWNERS {
            clients[0].deposit(owner).await;
        }
        run_all(clients.into_iter().map(BankClient::run)).await
    })
}

struct BankClient {
    caller: DbCaller,
    calls: Vec<ClientCall>,
}

impl BankClient {
    async fn run(mut self) -> Vec<ClientCall> {
        while !self.caller.is_stopped() {
            match self.caller.random.random_range(0..100) {
                0..60 => self.transfer().await,
                60..80 => self.read(ReadLevel::Strong).await,
                80..90 => self.read(ReadLevel::After(self.caller.position)).await,
                _ => self.read(ReadLevel::Any).await,
            }
            self.caller.think().await;
        }
        self.calls
    }

    async fn deposit(&mut self, owner: i64) {
        let stamp = self.caller.stamp();
        let statements = json!([
            ["INSERT INTO accounts (id, balance) VALUES (?, ?)", owner, DEPOSIT],
            noted(stamp, MINT, owner, DEPOSIT),
        ]);
        let (span, outcome) = self.caller.insist(&statements).await;
        assert!(matches!(outcome, ToldOutcome::Stored { .. }), "a deposit is {outcome:?}");
        self.wrote(span, stamp, [MINT, owner, DEPOSIT], outcome);
    }

    async fn transfer(&mut self) {
        let stamp = self.caller.stamp();
        let random = &mut self.caller.random;
        let (payer, amount) = (random.random_range(OWNERS), random.random_range(1..=MOST));
        // Another one.
        let step = random.random_range(1..*OWNERS.end());
        let payee = (payer - 1 + step) % OWNERS.end() + 1;
        let pay = "UPDATE accounts SET balance = balance - :n WHERE id = :id AND balance >= :n";
        let get = "UPDATE accounts SET balance = balance + :n WHERE id = :id";
        let statements = json!([
            {"sql": pay, "args": {"n": amount, "id": payer}, "changes": 1},
            {"sql": get, "args": {"n": amount, "id": payee}, "changes": 1},
            noted(stamp, payer, payee, amount),
        ]);
        let (span, outcome) = self.caller.write(&statements).await;
        self.wrote(span, stamp, [payer, payee, amount], outcome);
    }

    /// All balances, and their sum, on one snapshot.
    async fn read(&mut self, level: ReadLevel) {
        let all = "SELECT id, balance FROM accounts ORDER BY id";
        let queries = json!([[all], ["SELECT SUM(balance) FROM accounts"]]);
        let Some((span, index, results)) = self.caller.read(&queries, level).await else { return };
        let [rows, summed] = <[_; 2]>::try_from(results).expect("each query has a result");
        let total = sum(&rows).expect("the rows are accounts");
        // A default read may be one from before the deposits.
        let expected = if rows.is_empty() { RowCell::Null } else { RowCell::Integer(total) };
        assert_eq!(summed, [[expected]], "both queries have one snapshot");
        if level == ReadLevel::Strong {
            assert_eq!(total, TOTAL, "at index {index} the balances are {rows:?}");
        }
        let read = ClientRead { table: ACCOUNTS, key: None, rows, index, level };
        let action = CallAction::Read(read);
        self.calls.push(ClientCall { client: self.caller.number, span, action });
    }

    fn wrote(&mut self, span: CallSpan, stamp: i64, note: [i64; 3], outcome: ToldOutcome) {
        let note = note.map(RowCell::Integer).to_vec();
        let action = CallAction::Write(ClientWrite { stamp, note, outcome });
        self.calls.push(ClientCall { client: self.caller.number, span, action });
    }
}

/// The statement that adds a transfer to the history.
fn noted(stamp: i64, payer: i64, payee: i64, amount: i64) -> serde_json::Value {
    let add = "INSERT INTO history (stamp, payer, payee, amount) VALUES (?, ?, ?, ?)";
    json!([add, stamp, payer, payee, amount])
}
