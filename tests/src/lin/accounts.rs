//! Accounts: transfers move money between rows, and the sum never changes.

use std::collections::BTreeMap;

use super::feed::FeedRows;
use super::history::{Row, RowCell};

/// The table of the accounts: a key, and the balance.
pub const ACCOUNTS: &str = "accounts";

/// The history table of the accounts: an id, the stamp, the account that pays, the one that is paid, the amount.
pub const TRANSFERS: &str = "history";

/// The account that pays the first deposits.
pub const MINT: i64 = 0;

/// The row of an account.
pub fn account_row(account: i64, balance: i64) -> Row {
    vec![RowCell::Integer(account), RowCell::Integer(balance)]
}

/// The sum of the balances of these rows; `None` if one is no row of an account.
pub fn sum<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Option<i64> {
    rows.into_iter().map(balance).sum()
}

/// Looks whether each account has at each index the balance that the transfers up to there give it, whether no
/// balance is negative, and whether all have `total` together, once the first deposits are made. Returns the number of
/// transfers.
pub fn check_balances(feed: &FeedRows, total: i64) -> Result<usize, String> {
    let mut balances: BTreeMap<i64, i64> = BTreeMap::new();
    let (mut transfers, mut deposited) = (0, 0);
    let mut written = feed.added(TRANSFERS).into_iter().peekable();
    for index in feed.changes(TRANSFERS) {
        while let Some((_, row)) = written.next_if(|(at, _)| *at == index) {
            let (from, to, amount) =
                transfer(row).ok_or_else(|| format!("index {index}: {row:?} is no transfer"))?;
            if from == MINT {
                deposited += amount;
            } else {
                *balances.entry(from).or_default() -= amount;
                transfers += 1;
            }
            *balances.entry(to).or_default() += amount;
        }
        let expected = balances.iter().map(|(account, balance)| account_row(*account, *balance));
        let found = feed.rows(ACCOUNTS, None, index);
        if !expected.clone().eq(found.iter().copied().cloned()) {
            let expected: Vec<Row> = expected.collect();
            return Err(format!(
                "index {index}: by the transfers {expected:?}, and there is {found:?}"
            ));
        }
        let is_negative = |balance: &i64| *balance < 0;
        if balances.values().any(is_negative) || sum(found) != Some(deposited) {
            return Err(format!("index {index}: {balances:?} are not {deposited} in all"));
        }
    }
    match deposited == total {
        true => Ok(transfers),
        false => Err(format!("{deposited} were deposited, and not {total}")),
    }
}

fn balance(row: &Row) -> Option<i64> {
    match row[..] {
        [RowCell::Integer(_), RowCell::Integer(balance)] => Some(balance),
        _ => None,
    }
}

fn transfer(row: &Row) -> Option<(i64, i64, i64)> {
    match row[..] {
        [
            RowCell::Integer(_),
            RowCell::Integer(_),
            RowCell::Integer(from),
            RowCell::Integer(to),
            RowCell::Integer(amount),
        ] => Some((from, to, amount)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lin::feed::{ChangedRow, FeedChange, FeedGroup};

    fn added(table: &str, row: Row) -> FeedChange {
        let RowCell::Integer(key) = row[0] else { panic!("the key is an integer") };
        FeedChange { table: table.into(), key, row: ChangedRow::Added(row) }
    }

    fn moved(id: i64, from: i64, to: i64, amount: i64) -> FeedChange {
        added(TRANSFERS, [id, id, from, to, amount].map(RowCell::Integer).to_vec())
    }

    fn balance_is(account: i64, balance: i64) -> FeedChange {
        let row = ChangedRow::Changed(vec![None, Some(RowCell::Integer(balance))]);
        FeedChange { table: ACCOUNTS.into(), key: account, row }
    }

    /// Ten for each of two accounts, and two transfers in one group.
    fn groups() -> Vec<FeedGroup> {
        let opened = |account| added(ACCOUNTS, account_row(account, 10));
        let changes = vec![opened(1), opened(2), moved(1, MINT, 1, 10), moved(2, MINT, 2, 10)];
        let later = vec![moved(3, 1, 2, 7), moved(4, 2, 1, 3), balance_is(1, 6), balance_is(2, 14)];
        vec![FeedGroup { index: 1, changes }, FeedGroup { index: 3, changes: later }]
    }

    fn check(groups: &[FeedGroup]) -> Result<usize, String> {
        check_balances(&FeedRows::replay(groups), 20)
    }

    #[test]
    fn transfers_explain_the_balances_at_each_index() {
        assert_eq!(check(&groups()), Ok(2));
        assert!(check_balances(&FeedRows::replay(&groups()), 21).is_err());
    }

    #[test]
    fn money_made_lost_or_moved_by_an_unknown_hand_is_found() {
        type Mutation = fn(&mut Vec<FeedGroup>);
        let mutations: [(&str, Mutation); 4] = [
            ("money is made", |groups| groups[1].changes[3] = balance_is(2, 15)),
            ("money is lost", |groups| drop(groups[1].changes.pop())),
            ("a transfer is missing", |groups| drop(groups[1].changes.remove(0))),
            ("a transfer is there twice", |groups| {
                let changes = vec![moved(5, 1, 2, 7)];
                groups.push(FeedGroup { index: 4, changes });
            }),
        ];
        for (name, mutate) in mutations {
            let mut groups = groups();
            mutate(&mut groups);
            assert!(check(&groups).is_err(), "{name}");
        }
    }

    #[test]
    fn an_account_below_zero_is_found() {
        let mut groups = groups();
        let overdrawn = vec![moved(5, 1, 2, 7), balance_is(1, -1), balance_is(2, 21)];
        groups.push(FeedGroup { index: 4, changes: overdrawn });
        let error = check(&groups).unwrap_err();
        assert!(error.contains("index 4"), "{error}");
    }
}
