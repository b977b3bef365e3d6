//! Which process listens where, and with which settings.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;

use crate::start_error::StartError;

/// The ports of one `rideshare up`: neighbours, of which the gateway has the first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ports {
    gateway: u16,
    /// The first instance is beside the gateway, further ones come behind Consort.
    users: Vec<u16>,
    rides: Vec<u16>,
    orchestrator: u16,
    consort: u16,
}

/// A process of this program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProcessPlan {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) arguments: Vec<String>,
}

impl Ports {
    /// The ports from `first` on.
    pub(super) fn new(first: u16, replicas: NonZeroU16) -> Result<Ports, StartError> {
        let more = replicas.get() - 1;
        let count = 5 + 2 * u32::from(more);
        if u32::from(first) + count - 1 > u32::from(u16::MAX) {
            return Err(StartError::Ports { first, count });
        }
        let further = |offset: u16| (0..more).map(move |at| first + 5 + 2 * at + offset);
        Ok(Ports {
            gateway: first,
            users: std::iter::once(first + 1).chain(further(0)).collect(),
            rides: std::iter::once(first + 2).chain(further(1)).collect(),
            orchestrator: first + 3,
            consort: first + 4,
        })
    }

    /// Where Consort listens.
    pub(super) fn consort(&self) -> SocketAddr {
        address(self.consort)
    }

    pub(super) fn consort_url(&self) -> String {
        url(self.consort)
    }

    /// All processes of this program.
    pub(super) fn processes(&self) -> Vec<ProcessPlan> {
        let (users, rides) = (urls(&self.users), urls(&self.rides));
        let database = ["--consort".to_owned(), self.consort_url()];
        let mut processes = Vec::new();
        let mut add = |command: &str, number: Option<usize>, port: u16, settings: &[String]| {
            let number = number.map(|number| format!(" {number}")).unwrap_or_default();
            let mut arguments =
                vec![command.to_owned(), "--listen".into(), address(port).to_string()];
            arguments.extend_from_slice(settings);
            processes.push(ProcessPlan {
                name: format!("{command}{number}"),
                url: url(port),
                arguments,
            });
        };
        let instances = |urls: &str| ["--instances".to_owned(), urls.to_owned()];
        for (at, port) in self.users.iter().enumerate() {
            let settings = [&database[..], &instances(&users)].concat();
            add("users", Some(at + 1), *port, &settings);
        }
        for (at, port) in self.rides.iter().enumerate() {
            let gateway = ["--gateway".to_owned(), url(self.gateway)];
            let settings = [&database[..], &instances(&rides), &gateway].concat();
            add("rides", Some(at + 1), *port, &settings);
        }
        add("orchestrator", None, self.orchestrator, &database);
        let services = ["--users".to_owned(), users.clone(), "--rides".to_owned(), rides.clone()];
        add("gateway", None, self.gateway, &services);
        processes
    }

    /// What is where, for people to read.
    pub(super) fn addresses(&self) -> String {
        let named = [
            ("gateway", url(self.gateway)),
            ("users", urls(&self.users)),
            ("rides", urls(&self.rides)),
            ("orchestrator", url(self.orchestrator)),
            ("consort", self.consort_url()),
        ];
        let lines = named.map(|(name, urls)| format!("{name:<13} {}\n", urls.replace(',', "  ")));
        format!("RideShare is ready.\n{}Ctrl-C ends all of it.\n", lines.concat())
    }
}

fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn url(port: u16) -> String {
    format!("http://{}", address(port))
}

fn urls(ports: &[u16]) -> String {
    ports.iter().map(|port| url(*port)).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(first: u16, replicas: u16) -> Result<Ports, StartError> {
        Ports::new(first, NonZeroU16::new(replicas).unwrap())
    }

    #[test]
    fn ports_are_neighbours_and_the_usual_ones_come_first() {
        for (replicas, users, rides) in [
            (1, vec![8001], vec![8002]),
            (2, vec![8001, 8005], vec![8002, 8006]),
            (3, vec![8001, 8005, 8007], vec![8002, 8006, 8008]),
        ] {
            let ports = ports(8000, replicas).unwrap();
            assert_eq!((&ports.users, &ports.rides), (&users, &rides));
            assert_eq!((ports.gateway, ports.orchestrator, ports.consort), (8000, 8003, 8004));
        }
        assert!(ports(65_531, 1).is_ok());
        assert!(ports(65_532, 1).is_err());
        assert!(ports(65_531, 2).is_err());
        assert!(ports(1, u16::MAX).is_err());
    }

    #[test]
    fn each_process_knows_those_that_it_asks() {
        let processes = ports(8000, 2).unwrap().processes();
        let lines: Vec<String> = processes
            .iter()
            .map(|process| format!("{}: {}", process.name, process.arguments.join(" ")))
            .map(|line| line.replace("http://127.0.0.1", "").replace("127.0.0.1", ""))
            .collect();
        assert_eq!(
            lines,
            [
                "users 1: users --listen :8001 --consort :8004 --instances :8001,:8005",
                "users 2: users --listen :8005 --consort :8004 --instances :8001,:8005",
                "rides 1: rides --listen :8002 --consort :8004 --instances :8002,:8006 --gateway :8000",
                "rides 2: rides --listen :8006 --consort :8004 --instances :8002,:8006 --gateway :8000",
                "orchestrator: orchestrator --listen :8003 --consort :8004",
                "gateway: gateway --listen :8000 --users :8001,:8005 --rides :8002,:8006",
            ]
        );
    }
}
