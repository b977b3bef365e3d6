//! Which messages of a channel were handed out and not settled, and the fewest acknowledgements for
//! those that are.
//!
//! The broker closes a channel on which a message is acknowledged that it does not wait for, and with
//! that every message that is out comes again. So none is acknowledged twice.

use std::collections::BTreeSet;

use lapin::types::DeliveryTag;

/// One acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) tag: DeliveryTag,
    /// Whether it is for all earlier messages of the channel as well.
    pub(super) multiple: bool,
}

/// The messages that are out. There are as many as the broker may send ahead, at most.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    out: BTreeSet<DeliveryTag>,
}

impl Unsettled {
    /// A message is handed out. They are handed out in the order of their tags.
    pub(super) fn hand_out(&mut self, tag: DeliveryTag) {
        self.out.insert(tag);
    }

    /// What to send for these, in any order; those that are not out are passed over. Everything that
    /// earlier calls returned has to be sent before, since the first of these may cover it.
    pub(super) fn settle(&mut self, tags: impl IntoIterator<Item = DeliveryTag>) -> Vec<Ack> {
        let settled: BTreeSet<DeliveryTag> =
            tags.into_iter().filter(|tag| self.out.remove(tag)).collect();
        // Those before the first that stays out go at once. What has not been handed out yet has higher
        // tags than all that has, and is not touched by that.
        let stays = self.out.first().copied().unwrap_or(DeliveryTag::MAX);
        let before = settled.range(..stays).next_back();
        let first = before.map(|tag| Ack { tag: *tag, multiple: true });
        let others = settled.range(stays..).map(|tag| Ack { tag: *tag, multiple: false });
        first.into_iter().chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(tag: DeliveryTag) -> Ack {
        Ack { tag, multiple: true }
    }

    fn one(tag: DeliveryTag) -> Ack {
        Ack { tag, multiple: false }
    }

    #[test]
    fn the_fewest_acknowledgements_are_sent_and_none_twice() {
        // Of messages 1 to 6, what is settled call by call, and what is sent for it.
        type Call<'a> = (&'a [DeliveryTag], &'a [Ack]);
        let cases: &[&[Call]] = &[
            &[(&[1, 2, 3, 4, 5, 6], &[all(6)]), (&[1, 6], &[])],
            &[(&[6, 5, 4, 3, 2, 1], &[all(6)])],
            &[(&[1, 2, 3], &[all(3)]), (&[2, 3, 4, 4], &[all(4)])],
            &[(&[2, 4], &[one(2), one(4)]), (&[1], &[all(1)]), (&[3, 6], &[all(3), one(6)])],
            &[(&[2, 4], &[one(2), one(4)]), (&[1, 3, 5, 6], &[all(6)])],
            &[(&[1, 2, 4], &[all(2), one(4)]), (&[5, 6], &[one(5), one(6)]), (&[3], &[all(3)])],
            &[(&[], &[]), (&[7, 0], &[])],
        ];
        for calls in cases {
            let mut unsettled = Unsettled::default();
            (1..=6).for_each(|tag| unsettled.hand_out(tag));
            for (tags, acks) in *calls {
                assert_eq!(unsettled.settle(tags.iter().copied()), *acks, "{tags:?} in {calls:?}");
            }
        }
    }

    #[test]
    fn every_order_of_settling_acknowledges_each_message_once() {
        // A broker that is as strict as the real one, over all orders of five messages.
        let mut orders = vec![vec![]];
        for _ in 0..5 {
            orders = (orders.iter())
                .flat_map(|order: &Vec<DeliveryTag>| {
                    let left = (1..=5).filter(|tag| !order.contains(tag));
                    left.map(|tag| [order.as_slice(), &[tag]].concat()).collect::<Vec<_>>()
                })
                .collect();
        }
        assert_eq!(orders.len(), 120);
        for order in orders {
            let mut unsettled = Unsettled::default();
            (1..=5).for_each(|tag| unsettled.hand_out(tag));
            let mut waits: BTreeSet<DeliveryTag> = (1..=5).collect();
            let mut settled = BTreeSet::new();
            for tags in order.chunks(2) {
                settled.extend(tags);
                for ack in unsettled.settle(tags.iter().copied()) {
                    assert!(waits.remove(&ack.tag), "{ack:?} in {order:?}");
                    waits.retain(|tag| !ack.multiple || *tag > ack.tag);
                }
                assert!(
                    waits.is_disjoint(&settled) && waits.len() + settled.len() == 5,
                    "{order:?}"
                );
            }
        }
    }
}
