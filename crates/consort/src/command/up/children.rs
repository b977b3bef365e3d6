//! The children of `consort up`: processes of this program that run `serve`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;

use consort::Config;
use consort_client::Client;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::command::settings::SettingArgs;

/// How children are made.
#[derive(Debug)]
pub(super) struct Children {
    program: PathBuf,
    /// Settings that all of them share.
    shared: Vec<OsString>,
    ids: String,
    listen: SocketAddr,
    /// Host and port by which the first is reached, where that differs from where it listens.
    advertise: Option<(String, u16)>,
    data: PathBuf,
    token: Option<String>,
    running: BTreeMap<usize, Child>,
}

impl Children {
    /// None yet. They will have the settings of `config`, which `settings` gave, and these bounds.
    pub(super) fn new(
        settings: &SettingArgs,
        config: &Config,
        (min, max): (usize, usize),
    ) -> Result<Children, String> {
        let program = std::env::current_exe()
            .map_err(|error| format!("cannot find the program of the children: {error}"))?;
        let mut shared = settings.as_arguments();
        for bound in [format!("scale.min={min}"), format!("scale.max={max}")] {
            shared.extend(["--set".into(), bound.into()]);
        }
        let advertise = config.http.advertise.as_ref().and_then(|address| {
            let (host, port) = address.rsplit_once(':')?;
            Some((host.to_owned(), port.parse().ok()?))
        });
        Ok(Children {
            program,
            shared,
            ids: config.node.id.clone().unwrap_or_else(crate::identity::host),
            listen: config.http.listen,
            advertise,
            data: config.data_folder(),
            token: config.http.tokens.first().map(str::to_owned),
            running: BTreeMap::new(),
        })
    }

    /// The id of a child in the cluster.
    pub(super) fn id(&self, number: usize) -> String {
        format!("{}-up-{number}", self.ids)
    }

    /// Starts a child.
    pub(super) fn start(&mut self, number: usize) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command
            .arg("serve")
            .args(self.arguments(number))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // The terminal sends Ctrl-C to a whole group: children hear of it from this process alone.
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn().map_err(|error| {
            format!(
                "cannot start {} for node '{}': {error}",
                self.program.display(),
                self.id(number)
            )
        })?;
        self.running.insert(number, child);
        Ok(())
    }

    fn arguments(&self, number: usize) -> Vec<OsString> {
        let mut arguments = self.shared.clone();
        let step = number as u16 - 1;
        let listen = SocketAddr::new(self.listen.ip(), self.listen.port() + step);
        let data = self.data.join(format!("up-{number}"));
        let mut sets = vec![format!("node.data={}", data.display())];
        if let Some((host, port)) = &self.advertise {
            sets.push(format!("http.advertise={host}:{}", port + step));
        }
        arguments.push("--until-stdin-closes".into());
        arguments.extend(["--node".into(), self.id(number).into()]);
        arguments.extend(["--listen".into(), listen.to_string().into()]);
        arguments.extend(sets.into_iter().flat_map(|set| ["--set".into(), set.into()]));
        arguments
    }

    /// Sends a signal; one that has ended just now does not hear it.
    pub(super) fn signal(&self, number: usize, signal: Signal) {
        let child = self.running.get(&number).and_then(Child::id);
        let pid = child.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, signal);
        }
    }

    /// Those that have ended since the last call, and how.
    pub(super) fn ended(&mut self) -> Vec<(usize, String)> {
        let mut ended = Vec::new();
        self.running.retain(|number, child| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                ended.push((*number, status.to_string()));
                false
            }
            Err(error) => {
                ended.push((*number, error.to_string()));
                false
            }
        });
        ended
    }

    /// A client of a child on this machine.
    pub(super) fn client(&self, number: usize) -> Option<Client> {
        let ip = match self.listen.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let address = SocketAddr::new(ip, self.listen.port() + (number as u16 - 1));
        Client::new(&format!("http://{address}"), self.token.as_deref()).ok()
    }
}
