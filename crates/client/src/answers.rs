//! What nodes answer, and what they are told.

use std::fmt;
use std::str::FromStr;

use consort_cluster::ClusterStatus;
use serde::{Deserialize, Serialize, Serializer};

/// The answer of `GET /cluster`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Nodes and roles.
    #[serde(flatten)]
    pub status: ClusterStatus,
    /// How many nodes the cluster wants; absent while no scaler decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<u64>,
}

/// Where a role that stopped for a loss is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// At the oldest frame there is.
    First,
    /// Behind the newest frame there is.
    End,
    /// At this frame.
    Offset(u64),
}

/// A text that says nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 'first', 'end' or the number of a frame, not '{0}'")]
pub struct FromError(String);

/// A decision that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Resolved {
    /// The number of decisions so far.
    pub era: u64,
    /// The first frame that is applied.
    pub offset: u64,
}

impl FromStr for From {
    type Err = FromError;

    fn from_str(text: &str) -> Result<From, FromError> {
        match text {
            "first" => Ok(From::First),
            "end" => Ok(From::End),
            number => number.parse().map(From::Offset).map_err(|_| FromError(text.to_owned())),
        }
    }
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            From::First => f.write_str("first"),
            From::End => f.write_str("end"),
            From::Offset(offset) => write!(f, "{offset}"),
        }
    }
}

impl Serialize for From {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            From::Offset(offset) => to.serialize_u64(*offset),
            word => to.collect_str(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_people_write_it_and_sent_as_nodes_take_it() {
        for (text, from, sent) in [
            ("first", From::First, "\"first\""),
            ("end", From::End, "\"end\""),
            ("7", From::Offset(7), "7"),
        ] {
            assert_eq!(text.parse(), Ok(from));
            assert_eq!(from.to_string(), text);
            assert_eq!(serde_json::to_string(&from).unwrap(), sent);
        }
        for bad in ["", "last", "-1", "1.5"] {
            assert_eq!(bad.parse::<From>(), Err(FromError(bad.into())));
        }
    }

    #[test]
    fn a_cluster_reads_as_the_node_writes_it() {
        let text = r#"{"now":5,"nodes":[{"id":"a","address":"h:1","version":"0.1.0","since":1,"load":2,
            "draining":false,"live":true,"later":"ignored"}],"roles":[{"role":"worker:s/0","owner":"a",
            "epoch":3,"ready":true,"lag":40,"applied":7,"trouble":null,"stopped":null,
            "pause":{"cause":"taken_over","millis":12},"refusals":[{"node":"b","reason":"r","until":9}]}],
            "unreadable":[],"wanted":2}"#;
        let cluster: Cluster = serde_json::from_str(text).unwrap();
        assert_eq!((cluster.wanted, cluster.status.now), (Some(2), 5));
        assert_eq!(cluster.status.nodes[0].id, "a");
        assert_eq!(cluster.status.roles[0].role.to_string(), "worker:s/0");
        let again = serde_json::to_string(&cluster).unwrap();
        assert_eq!(serde_json::from_str::<Cluster>(&again).unwrap(), cluster);
    }
}
